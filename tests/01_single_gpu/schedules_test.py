#!/usr/bin/env python3
"""Runs stage 01 under every order that the simulated GPU offers: the bits must not change.

Usage: schedules_test.py PROGRAM
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
NETS = {
    "relu": ["--layers", "37-70-33-5", "--activation", "relu", "--clip-norm", "2"],
    "gelu": ["--layers", "37-70-33-5", "--activation", "gelu", "--weight-decay", "0.01"],
    "mse": ["--layers", "37-70-5", "--loss", "mse", "--precision", "fp64"],
}
SETTINGS = [
    {"SIMGPU_SCHEDULE": "eager"},
    *({"SIMGPU_SCHEDULE": f"delays:{seed}"} for seed in range(1, 5)),
    {"SIMGPU_THREAD_ORDER": "reverse"},
    *({"SIMGPU_THREAD_ORDER": f"random:{seed}"} for seed in range(1, 4)),
    {"SIMGPU_SCHEDULE": "delays:9", "SIMGPU_THREAD_ORDER": "random:9"},
    {"SIMGPU_SCHEDULE": "eager", "SIMGPU_THREAD_ORDER": "reverse"},
]


def bits_of(net, setting):
    """Every step's loss, and the result, of 12 steps over two epochs and a short last batch."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SIMGPU_")}
    with tempfile.TemporaryDirectory() as folder:
        metrics = os.path.join(folder, "metrics")
        subprocess.run([PROGRAM, "--data", "synthetic", "--global-batch", "999", "--steps", "12",
                        "--metrics", metrics, "--quiet", *NETS[net]], env={**clean, **setting},
                       timeout=100, check=True, stdout=subprocess.DEVNULL)
        with open(metrics, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    end = lines[-1]
    return ([line["loss"] for line in lines if line["event"] == "step"],
            end["parameter_checksum"], end["test_loss"], end["test_accuracy"])


class Schedules(unittest.TestCase):
    def check_all(self, net):
        expected = bits_of(net, {})
        self.assertEqual(len(expected[0]), 12)
        for setting in SETTINGS:
            with self.subTest(setting):
                self.assertEqual(bits_of(net, setting), expected)

    def test_relu_with_clipping(self):
        self.check_all("relu")

    def test_gelu_with_decay(self):
        self.check_all("gelu")

    def test_mse_in_fp64(self):
        self.check_all("mse")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
