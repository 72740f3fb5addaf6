#!/usr/bin/env python3
"""After five epochs of Fashion-MNIST two GPUs know as much as one.

    accuracy_test.py PROGRAM FILE

In fp32 the weights of two correct programs drift apart by rounding, and with them the test accuracy of
a seed. The mean over three seeds must agree within half a point with that in FILE, which is what stage
02's test has seen on one GPU.
"""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "02_grad_accum"))
import accuracy_test as one_gpu  # noqa: E402  (after the path)

FILE = None


class Accuracy(one_gpu.JobTest):
    def test_the_mean_of_three_seeds_is_within_half_a_point(self):
        one = json.loads(FILE.read_text(encoding="utf-8"))
        two = one_gpu.accuracies(self, 2, "--allreduce", "ring")
        print(f"1 GPU: {one}\n2 GPUs: {two}")
        self.assertEqual(len(one), len(two))
        self.assertLessEqual(abs(sum(two) - sum(one)) / len(one), 0.005)


if __name__ == "__main__":
    one_gpu.JobTest.program, FILE = sys.argv[1], Path(sys.argv[2])
    one_gpu.skip_without_data()
    unittest.main(argv=sys.argv[:1])
