#!/usr/bin/env python3
"""Trains on one GPU for five epochs of Fashion-MNIST with each of three seeds, for later stages to
compare with.

    accuracy_test.py PROGRAM FILE

FILE gets the test accuracies, by seed. The rate is small, so that rounding moves the mean by less than
the half point within which other stages must come; and the net, for it is the comparison that counts.
Status 77 without the data set.
"""

import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest  # noqa: E402  (after the path)

FILE = None
SEEDS = (1, 2, 3)
TRAINING = ("--quiet", "--epochs", 5, "--lr", 0.01, "--layers", "784-128-10")


def accuracies(test, ranks, *options):
    return [test.metrics(ranks, *TRAINING, "--seed", seed, *options)["end"][0]["test_accuracy"]
            for seed in SEEDS]


def skip_without_data():
    data = Path(os.environ.get("DDP_DATA_DIR", "/usr/share/datasets"), "fashion-mnist")
    if not data.is_dir():
        print(f"skipped: {data} does not exist")
        sys.exit(77)


class Accuracy(JobTest):
    def test_the_mean_of_three_seeds_is_above_85_percent(self):
        found = accuracies(self, None)
        print(f"one GPU: {found}")
        self.assertGreater(sum(found) / len(SEEDS), 0.85)
        FILE.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    JobTest.program, FILE = sys.argv[1], Path(sys.argv[2])
    FILE.unlink(missing_ok=True)
    skip_without_data()
    unittest.main(argv=sys.argv[:1])
