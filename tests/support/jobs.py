"""Runs the ranks of a stage's program as a person would, and looks at what is left of them."""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

LAUNCH = Path(__file__).resolve().parents[2] / "tools" / "launch.py"
WARNING = re.compile(r"warning: \d+ ranks on \d+ cores: time means nothing\n")


def write_images(folder, pixels, labels):
    """The four files of a data set: the samples are the training set and the test set. `pixels` are rows
    of bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix in ("train", "t10k"):
        header = struct.pack(">4I", 0x803, len(pixels), 1, len(pixels[0]))
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + b"".join(map(bytes, pixels)))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 0x801, len(labels)) + bytes(labels))
    return folder


def read_tensors(path):
    """A checkpoint's text, and its arrays by name."""
    data = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    text = header.pop("__metadata__")
    arrays = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        letter, width = {"F32": ("f", 4), "F64": ("d", 8)}[entry["dtype"]]
        arrays[name] = struct.unpack(f"<{(end - begin) // width}{letter}", data[begin:end])
    return text, arrays


class JobTest(unittest.TestCase):
    """Each test has a folder of its own. No process of a test may be left, no file in /dev/shm."""

    program = None
    options = ()  # of every run

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.word = f"DDP_TEST_WORD={os.getpid()}.{time.monotonic_ns()}"  # marks all processes
        self.shared_before = set(Path("/dev/shm").glob("ddp_job.*"))
        self.runs = 0

    def tearDown(self):
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and int(process.name) != os.getpid():
                    self.assertNotIn(self.word.encode(), (process / "environ").read_bytes(),
                                     f"process {process.name} is left")
            except OSError:
                pass
        mine = {f for f in Path("/dev/shm").glob("ddp_job.*") if str(os.getpid()) in f.name}
        self.assertEqual(mine - self.shared_before, set())

    def start(self, ranks, *options, launcher=(), variables=None):
        name, value = self.word.split("=")
        launch = [] if ranks is None else [
            sys.executable, str(LAUNCH), "-n", str(ranks), "--timeout", "100", *launcher]
        return subprocess.Popen(
            [*launch, self.program, *self.options, *map(str, options)], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, name: value, **(variables or {})})

    def job(self, ranks, *options, launcher=(), **variables):
        """The finished process; .stderr without the warning about cores, .seconds."""
        begin = time.monotonic()
        process = self.start(ranks, *options, launcher=launcher, variables=variables)
        try:
            out, err = process.communicate(timeout=130)
        finally:
            process.kill()
        done = subprocess.CompletedProcess(process.args, process.returncode, out,
                                           WARNING.sub("", err))
        done.seconds = time.monotonic() - begin
        return done

    def metrics(self, ranks, *options, **variables):
        """The events of a run that ends well: {"run": [...], "step": [...], ...}."""
        self.runs += 1
        path = self.folder / f"metrics{self.runs}.jsonl"
        done = self.job(ranks, "--metrics", path, *options, **variables)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.events(path)

    def events(self, path):
        events = {}
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            events.setdefault(event["event"], []).append(event)
        return events

    def losses(self, ranks, *options, **variables):
        return [step["loss"] for step in self.metrics(ranks, *options, **variables)["step"]]

    def assert_close(self, found, expected, bound):
        self.assertEqual(len(found), len(expected))
        for index, (a, b) in enumerate(zip(found, expected)):
            self.assertLessEqual(abs(a - b), bound * abs(b), f"step {index + 1}: {a} and {b}")
