#!/usr/bin/env python3
"""Runs stage 01 with --trace and reads what it wrote, as a profiler and as ./course trace would.

Usage: trace_test.py PROGRAM [--simulated]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections import Counter

PROGRAM = os.path.abspath(sys.argv[1])
SIMULATED = "--simulated" in sys.argv
TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/trace.py")
BATCH, STEPS = 32, 6
NET = ["--layers", "784-16-12-10", "--global-batch", str(BATCH), "--quiet"]


def run(*arguments, **environment):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})


class Trace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = os.path.join(cls.folder.name, "trace.json")
        cls.result = run(*NET, "--steps", str(STEPS), "--trace", cls.path)
        assert cls.result.returncode == 0, cls.result.stderr
        with open(cls.path, encoding="utf-8") as file:
            cls.whole = json.load(file)
        events = cls.whole["traceEvents"]
        cls.names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        cls.events = [e for e in events if e["ph"] == "X"]

    def of(self, row, **args):
        return [e for e in self.events if self.names[e["tid"]] == row
                and all(e["args"].get(key) == value for key, value in args.items())]

    def test_the_file_says_what_it_is_of(self):
        other = self.whole["otherData"]
        self.assertEqual(other["stage"], "01_single_gpu")
        self.assertEqual(other["simulated"], SIMULATED)
        self.assertEqual(other["omitted"], 0)
        self.assertIn(other["device"], self.result.stdout)
        process = [e for e in self.whole["traceEvents"] if e["name"] == "process_name"]
        self.assertEqual([e["args"]["name"] for e in process], [f"rank 0: {other['device']}"])
        self.assertEqual({e["pid"] for e in self.whole["traceEvents"]}, {0})

    def test_two_rows_whose_operations_follow_each_other(self):
        self.assertEqual(sorted(self.names.values()), ["compute", "loader"])
        for row in self.names.values():
            events = self.of(row)
            self.assertEqual(events, sorted(events, key=lambda e: e["ts"]))
            for before, after in zip(events, events[1:]):
                self.assertGreaterEqual(before["dur"], 0)
                self.assertGreaterEqual(after["ts"], before["ts"] + before["dur"] - 0.002)

    def test_the_loader_has_the_copies_of_the_batches_and_nothing_else(self):
        for step in range(1, STEPS + 1):
            inputs, labels = self.of("loader", step=step)
            for event in (inputs, labels):
                self.assertEqual(event["name"], "copy host to device")
                self.assertEqual(event["cat"], "copy")
                self.assertEqual(event["args"]["range"], "load")
            self.assertEqual(inputs["args"]["bytes"], BATCH * 784 * 4)
            self.assertEqual(labels["args"]["bytes"], BATCH * 4)
        self.assertEqual(len(self.of("loader")), 2 * STEPS)

    def test_each_step_has_what_the_lesson_counts_for_three_layers(self):
        for step in range(1, STEPS + 1):
            kinds = Counter(e["cat"] for e in self.of("compute", step=step))
            self.assertEqual(kinds, {"product": 8, "kernel": 18, "copy": 2, "clear": 1})
            phases = Counter(e["args"]["range"] for e in self.of("compute", step=step))
            self.assertEqual(phases, {
                "clear sums": 1,
                "forward/layers.0": 2, "forward/layers.1": 2, "forward/layers.2": 2,
                "loss": 3,
                "backward/layers.2": 4, "backward/layers.1": 4, "backward/layers.0": 2,
                "check finite": 1, "update": 7, "record": 1})

    def test_products_have_their_sizes(self):
        (forward,) = [e for e in self.of("compute", step=2, range="forward/layers.0")
                      if e["cat"] == "product"]
        self.assertEqual(forward["name"], "cublasSgemm")
        self.assertEqual(forward["args"]["mnk"], [BATCH, 16, 784])
        self.assertEqual(forward["args"]["flops"], 2 * BATCH * 16 * 784)
        self.assertEqual(forward["args"]["bytes"], 4 * (BATCH * 784 + 784 * 16 + BATCH * 16))
        # 784 x 16 forward and once backward, the other two forward and twice backward
        everything = sum(e["args"].get("flops", 0) for e in self.of("compute", step=2))
        self.assertEqual(everything, 2 * BATCH * (2 * 784 * 16 + 3 * (16 * 12 + 12 * 10)))

    def test_kernels_have_names_grids_and_bytes(self):
        names = {e["name"] for e in self.of("compute") if e["cat"] == "kernel"}
        self.assertEqual(names, {
            "bias_activation_kernel<float, Relu<float>>",
            "bias_activation_kernel<float, Identity<float>>",
            "activation_gradient_kernel<float, Relu<float>>", "bias_gradient_kernel<float>",
            "cross_entropy_kernel<float>", "add_sum_kernel<float>", "check_finite_kernel<float>",
            "sgd_kernel<float>"})
        updates = [e for e in self.of("compute", step=1) if e["name"] == "sgd_kernel<float>"]
        # weights and biases in packs of four: value, velocity, gradient read, two of them written
        self.assertEqual([e["args"]["bytes"] for e in updates],
                         [20 * n for n in (784 * 16, 16, 16 * 12, 12, 12 * 10, 12)])
        self.assertEqual([e["args"]["grid"] for e in updates],
                         [[n, 1, 1] for n in (13, 1, 1, 1, 1, 1)])
        self.assertEqual(updates[0]["args"]["block"], [256, 1, 1])
        squares = [e["args"]["bytes"] for e in self.of("compute", step=1, range="forward/layers.1")
                   if e["cat"] == "kernel"]
        self.assertEqual(squares, [3 * 4 * BATCH * 12])

    def test_a_trace_does_not_change_a_bit(self):
        plain = run(*NET, "--steps", str(STEPS))
        for name in ("parameter checksum", "last loss", "test loss", "peak device memory"):
            (expected,) = [line for line in plain.stdout.splitlines() if line.startswith(name)]
            self.assertIn(expected, self.result.stdout)

    def test_the_tool_reads_it(self):
        done = subprocess.run([sys.executable, TOOL, self.path, "--machine", "/nowhere",
                               "--columns", "80"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("steps 1 to 6", done.stdout)
        self.assertIn("cublasSgemm", done.stdout)
        self.assertIn("backward/layers.2", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_a_run_that_fails_leaves_a_whole_trace(self):
        path = os.path.join(self.folder.name, "failed.json")
        result = run(*NET, "--steps", "50", "--trace", path, DDP_FAULT="0:5:nan")
        self.assertEqual(result.returncode, 4, result.stderr)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertIn(4, {e["args"].get("step") for e in events})

    def test_a_path_that_cannot_be_written_stops_before_training(self):
        path = os.path.join(self.folder.name, "no/folder/trace.json")
        result = run(*NET, "--steps", "1000000000", "--trace", path)
        self.assertEqual(result.returncode, 3)
        self.assertEqual(result.stderr, f"error: {path}: cannot be written:"
                                        " No such file or directory\n")
        for option in ("--metrics", "--dump-samples", "--save"):
            result = run(*NET, "--steps", "3", option, "same", "--trace", "same")
            self.assertEqual(result.returncode, 2)
            self.assertIn("--trace", result.stderr)
            self.assertFalse(os.path.exists("same"))

    def test_the_peak_of_device_memory_is_exact(self):
        metrics = os.path.join(self.folder.name, "m.jsonl")
        result = run("--data", "synthetic", "--layers", "20-16-4", "--global-batch", "32",
                     "--steps", "3", "--metrics", metrics)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(metrics, encoding="utf-8") as file:
            end = json.loads(file.readlines()[-1])
        workspace = 32 << 20  # of cuBLAS
        # Four parameters of 320, 16, 64 and 4 floats, each at a multiple of 64: values, gradients,
        # velocities.
        parameters = 3 * 4 * (320 + 64 + 64 + 64)
        layers = 4 * 32 * 3 * (16 + 4)
        loss = 4 * (32 + 32 + 32 * 4)
        # Of the step; the update's copy of two of them, which say whether it is to be; a partial sum.
        scalars = 48 + 8 + 4
        loader = 2 * 4 * (32 * 20 + 32)  # two slots of inputs and labels
        evaluation = 4 * (32 * 20 + 32 * 4 + 32) + 48
        self.assertEqual(end["peak_device_bytes"],
                         workspace + parameters + layers + loss + scalars + loader + evaluation)
        self.assertIn("peak device memory   32.0 MiB", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
