#!/usr/bin/env python3
"""Runs stage 02 under every order that the simulated GPU offers: the bits must not change.

Usage: schedules_test.py PROGRAM
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
# Batches of 999 samples, the last of an epoch of 10.
RUNS = {
    "running": ["--micro-batch", "400", "--clip-norm", "2"],
    "pairwise": ["--micro-batch", "250", "--accumulate", "pairwise", "--activation", "gelu"],
    "mse": ["--micro-batch", "333", "--accumulate", "pairwise", "--loss", "mse", "--precision",
            "fp64", "--check-gradients"],
}
SETTINGS = [
    {"SIMGPU_SCHEDULE": "eager"},
    *({"SIMGPU_SCHEDULE": f"delays:{seed}"} for seed in range(1, 4)),
    {"SIMGPU_THREAD_ORDER": "reverse"},
    *({"SIMGPU_THREAD_ORDER": f"random:{seed}"} for seed in range(1, 3)),
    {"SIMGPU_SCHEDULE": "delays:9", "SIMGPU_THREAD_ORDER": "random:9"},
]


def bits_of(name, setting):
    """Every step's loss, and the result, of 12 steps over two epochs and a short last batch."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SIMGPU_")}
    with tempfile.TemporaryDirectory() as folder:
        metrics = os.path.join(folder, "metrics")
        subprocess.run([PROGRAM, "--data", "synthetic", "--layers", "37-70-33-5", "--global-batch",
                        "999", "--steps", "12", "--metrics", metrics, "--quiet", *RUNS[name]],
                       env={**clean, **setting}, timeout=100, check=True,
                       stdout=subprocess.DEVNULL)
        with open(metrics, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    end = lines[-1]
    return ([line for line in lines if line["event"] == "check"],
            [line["loss"] for line in lines if line["event"] == "step"],
            end["parameter_checksum"], end["test_loss"], end["test_accuracy"])


class Schedules(unittest.TestCase):
    def test_all(self):
        for name in RUNS:
            expected = bits_of(name, {})
            self.assertEqual(len(expected[1]), 12)
            for setting in SETTINGS:
                with self.subTest(name, **setting):
                    self.assertEqual(bits_of(name, setting), expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
