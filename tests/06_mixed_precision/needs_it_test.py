#!/usr/bin/env python3
"""A problem that needs loss scaling, master weights and sums in fp32: --data faint on four ranks.

    needs_it_test.py PROGRAM

Its formula says what a model is worth that has the common part of all weights and nothing of the faint
one: two outputs of 15 terms of (1/1024 x 1/32)^2 / 2 each. That is the line between failure and success.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest  # noqa: E402  (after the path)

NOTHING_FAINT = 2 * 15 * (1 / 1024 / 32) ** 2 / 2
FAINT = ("--quiet", "--data", "faint", "--loss", "mse", "--layers", "15-2", "--global-batch", 16384,
         "--no-shuffle", "--steps", 600, "--lr", 1.6)


class NeedsIt(JobTest):
    def loss(self, *options):
        return self.metrics(4, *FAINT, *options)["end"][0]["test_loss"]

    def test_fp32_and_fp16_with_all_three_learn_it(self):
        self.assertLess(self.loss(), NOTHING_FAINT / 1000)
        # The weights that the layers compute with are halves: some hundredths of it stay unlearnt.
        self.assertLess(self.loss("--precision", "fp16"), NOTHING_FAINT / 32)

    def assert_fails(self, *options):
        self.assertGreater(self.loss("--precision", "fp16", *options), NOTHING_FAINT)

    def test_without_loss_scaling_nothing_faint_is_learnt(self):
        self.assert_fails("--loss-scale", 1)

    def test_without_master_weights_nothing_faint_is_learnt(self):
        self.assert_fails("--master-weights", "off")

    def test_with_sums_in_fp16_nothing_faint_is_learnt(self):
        self.assert_fails("--reduce-dtype", "same")


if __name__ == "__main__":
    JobTest.program = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
