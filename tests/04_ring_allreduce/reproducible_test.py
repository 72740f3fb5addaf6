#!/usr/bin/env python3
"""The reproducible mode: over whole epochs, 1, 2 and 4 ranks give the same bits.

    reproducible_test.py PROGRAM ONE_GPU
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest  # noqa: E402  (after the path)

ONE_GPU = None


class Reproducible(JobTest):
    def end_of(self, ranks, *options):
        """Losses and the checksum of the weights."""
        events = self.metrics(ranks, "--quiet", "--accumulate", "pairwise", *options)
        return [step["loss"] for step in events["step"]], events["end"][0]["parameter_checksum"]

    def same_on_1_2_4(self, *options):
        program, self.program = self.program, ONE_GPU
        expected = self.end_of(None, *options)
        self.program = program
        for ranks in (1, 2, 4):
            self.assertEqual(self.end_of(ranks, "--allreduce", "tree", *options), expected, ranks)
        return expected

    def test_two_epochs_of_fashion_mnist_with_relu(self):
        # 60,000 by 256 leave 96: three of the eight micro-batches of 32, the others empty.
        losses, _ = self.same_on_1_2_4("--layers", "784-64-32-10", "--micro-batch", 32, "--epochs", 2)
        self.assertEqual(len(losses), 470)
        self.assertLess(losses[-1], 0.6 * losses[0])

    def test_every_precision_activation_and_loss(self):
        small = ("--data", "synthetic", "--layers", "20-16-8-4", "--global-batch", 100, "--steps", 150)
        self.same_on_1_2_4(*small, "--micro-batch", 7, "--precision", "fp64")
        self.same_on_1_2_4(*small, "--micro-batch", 13, "--activation", "gelu", "--loss", "mse",
                           "--clip-norm", 0.5, "--weight-decay", 0.01)

    def test_a_ring_does_not_give_the_bits_of_the_tree(self):  # or the tests above could not fail
        options = ("--data", "synthetic", "--layers", "20-16-8-4", "--global-batch", 100, "--steps", 50,
                   "--micro-batch", 7)
        tree, ring = (self.end_of(4, "--allreduce", name, *options) for name in ("tree", "ring"))
        self.assertNotEqual(tree[1], ring[1])


if __name__ == "__main__":
    JobTest.program, ONE_GPU = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
