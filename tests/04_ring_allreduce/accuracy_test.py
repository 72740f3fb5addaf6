#!/usr/bin/env python3
"""After five epochs of Fashion-MNIST four GPUs know as much as one.

    accuracy_test.py PROGRAM ONE_GPU

In fp32 the weights of two correct programs drift apart by rounding, and with them the test accuracy of
a seed. The mean over three seeds must agree within half a point.
"""

import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest  # noqa: E402  (after the path)

ONE_GPU = None
SEEDS = (1, 2, 3)


class Accuracy(JobTest):
    def mean_accuracy(self, ranks, *options):
        accuracies = [self.metrics(ranks, "--quiet", "--epochs", 5, "--lr", 0.01, "--seed", seed,
                                   *options)["end"][0]["test_accuracy"] for seed in SEEDS]
        print(f"{ranks or 1} GPUs: {accuracies}")
        return sum(accuracies) / len(SEEDS)

    def test_the_mean_of_three_seeds_is_within_half_a_point(self):
        four = self.mean_accuracy(4, "--allreduce", "ring")
        self.program = ONE_GPU
        one = self.mean_accuracy(None)
        self.assertGreater(one, 0.85)
        self.assertLessEqual(abs(four - one), 0.005)


if __name__ == "__main__":
    data = Path(os.environ.get("DDP_DATA_DIR", "/usr/share/datasets"), "fashion-mnist")
    if not data.is_dir():
        print(f"skipped: {data} does not exist")
        sys.exit(77)
    JobTest.program, ONE_GPU = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
