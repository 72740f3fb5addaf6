#!/usr/bin/env python3
"""Saves and resumes runs of stage 02, whose steps are several micro-batches.

Usage: checkpoint_test.py PROGRAM
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
# 10,000 samples in batches of 3,000: the epoch ends, with a short batch, after step 4.
NET = ["--data", "synthetic", "--layers", "20-16-4", "--global-batch", "3000", "--quiet"]


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

    def run_with(self, *arguments):
        """The steps, as (number, loss, samples), and the end of the metrics."""
        metrics = self.path("metrics")
        result = subprocess.run([PROGRAM, *NET, *arguments, "--metrics", metrics],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(metrics, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [(e["step"], e["loss"], e["samples"]) for e in lines[1:-1]], lines[-1]

    def test_ck05_a_resumed_run_goes_on_to_the_bit(self):
        for accumulate in ("running", "pairwise"):
            for precision in ("fp32", "fp64"):
                with self.subTest(accumulate=accumulate, precision=precision):
                    same = ["--micro-batch", "700", "--accumulate", accumulate, "--precision",
                            precision, "--weight-decay", "0.01"]
                    whole, end = self.run_with(*same, "--steps", "10", "--save", self.path("whole"))
                    self.run_with(*same, "--steps", "5", "--save", self.path("half"))
                    rest, rest_end = self.run_with(*same, "--steps", "10", "--resume",
                                                   self.path("half"), "--save", self.path("rest"))
                    self.assertEqual(rest, whole[5:])
                    self.assertEqual([step[2] for step in rest], [3000, 3000, 1000, 3000, 3000])
                    for field in ("parameter_checksum", "test_loss", "test_accuracy"):
                        self.assertEqual(rest_end[field], end[field])
                    self.assertEqual(self.bytes_of("rest"), self.bytes_of("whole"))

    def test_a_run_may_go_on_in_other_micro_batches(self):
        double = ["--precision", "fp64"]
        whole, _ = self.run_with(*double, "--steps", "10", "--micro-batch", "700")
        self.run_with(*double, "--steps", "5", "--micro-batch", "700", "--save", self.path("half"))
        rest, _ = self.run_with(*double, "--steps", "10", "--micro-batch", "1100", "--accumulate",
                                "pairwise", "--resume", self.path("half"))
        for (step, loss, _), (same_step, same_loss, _) in zip(rest, whole[5:], strict=True):
            self.assertEqual(step, same_step)
            self.assertLess(abs(loss - same_loss), 1e-12 * same_loss)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
