#!/usr/bin/env python3
"""Saves, damages and resumes runs of stage 01 as a person would.

Usage: checkpoint_test.py PROGRAM

Reads checkpoints with the standard library alone: 8 bytes with the header's length, a JSON header,
the arrays.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
NET = {"--data": "synthetic", "--layers": "20-16-4", "--global-batch": "3000", "--seed": "7"}
SHAPES = {"layers.0.weight": [16, 20], "layers.0.bias": [16],
          "layers.1.weight": [4, 16], "layers.1.bias": [4]}


def command(*arguments):
    net = [word for item in NET.items() if item[0] not in arguments for word in item]
    return [PROGRAM, *net, *arguments]


def run(*arguments, **environment):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60,
                          check=False, env={**os.environ, **environment})


def read_checkpoint(path):
    """The text and, by name, (type, shape, values)."""
    with open(path, "rb") as file:
        data = file.read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    text = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        letter, width = {"F32": ("f", 4), "F64": ("d", 8)}[entry["dtype"]]
        values = struct.unpack(f"<{(end - begin) // width}{letter}", data[begin:end])
        tensors[name] = (entry["dtype"], entry["shape"], values)
    return text, tensors


class Checkpoints(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def succeeds(self, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def fails(self, code, words, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        for word in words:
            self.assertIn(word, errors[0])

    def metrics(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        steps = [(e["step"], e["epoch"], e["loss"], e["learning_rate"], e["samples"])
                 for e in lines if e["event"] == "step"]
        return steps, lines[-1]

    def test_the_first_weights_can_be_read_with_the_standard_library(self):
        self.succeeds("--steps", "0", "--save", self.path("first"))
        text, tensors = read_checkpoint(self.path("first"))
        self.assertEqual(text["step"], "0")
        self.assertEqual(set(tensors), {f"{part}.{name}" for part in ("model", "optimizer")
                                        for name in SHAPES})
        for name, shape in SHAPES.items():
            dtype, found, values = tensors[f"model.{name}"]
            self.assertEqual((dtype, found), ("F32", shape))
            self.assertTrue(all(v == 0 for v in tensors[f"optimizer.{name}"][2]))
            if name.endswith("bias"):
                self.assertTrue(all(v == 0 for v in values))
            else:  # He: uniform within sqrt(6 / inputs)
                bound = (6 / shape[1]) ** 0.5
                self.assertTrue(all(abs(v) <= bound for v in values))
                self.assertGreater(max(values), 0.8 * bound)
                self.assertEqual(len(set(values)), len(values))

    def test_ck05_a_resumed_run_goes_on_to_the_bit(self):
        # 10,000 samples in batches of 3,000: the epoch ends, with a short batch, after step 4.
        for precision in ("fp32", "fp64"):
            same = ["--precision", precision, "--weight-decay", "0.01"]
            self.succeeds(*same, "--steps", "10", "--metrics", self.path("whole"),
                          "--save", self.path("whole.ckpt"))
            self.succeeds(*same, "--steps", "5", "--save", self.path("half.ckpt"))
            self.succeeds(*same, "--steps", "10", "--resume", self.path("half.ckpt"),
                          "--metrics", self.path("rest"), "--save", self.path("rest.ckpt"))
            whole, end = self.metrics("whole")
            rest, resumed_end = self.metrics("rest")
            self.assertEqual([step[0] for step in rest], [6, 7, 8, 9, 10])
            self.assertEqual(rest, whole[5:])
            for field in ("parameter_checksum", "test_loss", "test_accuracy"):
                self.assertEqual(end[field], resumed_end[field])
            self.assertEqual(self.bytes_of("whole.ckpt"), self.bytes_of("rest.ckpt"))

    def test_ck01_saving_every_few_steps_leaves_one_file_with_the_same_bytes_each_time(self):
        saved = []
        for name in ("new/folder/a", "b"):
            self.succeeds("--steps", "5", "--save", self.path(name))
            saved.append(self.bytes_of(name))
        self.assertEqual(*saved)
        self.assertEqual(os.listdir(self.path("new/folder")), ["a"])
        # Killed at step 8, the run leaves the file of step 5, which is whole.
        result = run("--steps", "20", "--save", self.path("c"), "--save-every", "5",
                     DDP_FAULT="0:8:kill")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(self.bytes_of("c"), saved[0])

    def test_fa03_a_step_that_is_not_finite_is_not_saved(self):
        result = run("--steps", "8", "--save", self.path("c"), "--save-every", "1",
                     DDP_FAULT="0:6:nan")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("step 6", result.stderr)
        text, tensors = read_checkpoint(self.path("c"))
        self.assertEqual(text["step"], "5")
        for _, _, values in tensors.values():
            self.assertTrue(all(abs(v) < float("inf") for v in values))

    def test_ck03_damaged_files_are_refused_with_the_path_and_the_reason(self):
        self.succeeds("--steps", "2", "--save", self.path("good"))
        good = self.bytes_of("good")
        flipped = bytearray(good)
        flipped[-5] ^= 4
        for name, data, words in (
                ("half", good[:len(good) // 2], [str(len(good)), str(len(good) // 2)]),
                ("empty", b"", ["has 0"]),
                ("flipped", bytes(flipped), ["checksum"]),
                ("longer", good + b"x", [str(len(good)), str(len(good) + 1)]),
                ("page", b"<!DOCTYPE html><html></html>", ["header"])):
            path = self.write(name, data)
            self.fails(3, [path, *words], "--steps", "4", "--resume", path)
        missing = self.path("none")
        self.fails(3, [missing, "No such file"], "--steps", "4", "--resume", missing)
        self.fails(3, [self.folder, "directory"], "--steps", "4", "--resume", self.folder)

    def test_ck03_the_file_of_another_net_is_refused_with_both_shapes(self):
        self.succeeds("--steps", "1", "--save", self.path("good"))
        self.fails(3, ["layers.0.weight", "(16, 20)", "(17, 20)"], "--layers", "20-17-4",
                   "--steps", "4", "--resume", self.path("good"))
        self.fails(3, ["F32", "F64"], "--precision", "fp64", "--steps", "4", "--resume",
                   self.path("good"))
        self.fails(3, ["tensors"], "--layers", "20-16", "--steps", "4", "--resume",
                   self.path("good"))

    def test_options_that_decide_how_the_run_goes_on_must_be_the_same(self):
        self.succeeds("--steps", "5", "--save", self.path("good"))
        resume = ["--steps", "9", "--resume", self.path("good")]
        self.fails(2, ["--seed", "8", "7"], *resume, "--seed", "8")
        self.fails(2, ["--momentum", "0.5", "0.9"], *resume, "--momentum", "0.5")
        self.fails(2, ["--no-shuffle"], *resume, "--no-shuffle")
        self.fails(2, ["step 4", "step 5"], "--steps", "4", "--resume", self.path("good"))
        self.succeeds(*resume, "--lr", "0.01")

    def test_a_place_that_cannot_be_written_is_refused_before_training(self):
        file = self.write("file", b"")
        metrics = self.path("metrics")
        self.fails(3, [f"{file}/x", "Not a directory"], "--save", f"{file}/x", "--metrics", metrics)
        self.assertNotIn("step", self.bytes_of("metrics").decode())
        self.fails(3, [self.folder, "directory"], "--save", self.folder)
        self.fails(2, ["--save-every", "--save"], "--save-every", "5")
        self.fails(2, ["--metrics", "--save"], "--save", metrics, "--metrics", metrics)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
