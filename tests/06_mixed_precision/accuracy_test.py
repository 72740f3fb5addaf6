#!/usr/bin/env python3
"""After five epochs of Fashion-MNIST halves know as much as single precision.

    accuracy_test.py PROGRAM FILE

The mean over three seeds, of fp16 and of bf16, must agree within half a point with that in FILE, which
is what stage 02's test has seen in fp32 on one GPU.
"""

import json
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "02_grad_accum"))
import accuracy_test as one_gpu  # noqa: E402  (after the path)

FILE = None
HALVES = ("fp16", "bf16")


def mean(values):
    return sum(values) / len(values)


class Accuracy(one_gpu.JobTest):
    def accuracy(self, precision, seed):
        path = self.folder / f"{precision}.{seed}.jsonl"
        done = self.job(None, *one_gpu.TRAINING, "--seed", seed, "--metrics", path,
                        "--precision", precision)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.events(path)["end"][0]["test_accuracy"]

    def test_the_mean_of_three_seeds_is_within_half_a_point(self):
        wide = json.loads(FILE.read_text(encoding="utf-8"))
        print(f"fp32: {mean(wide):.4f}, {wide}")
        with ThreadPoolExecutor(2) as pool:  # a run takes about one core
            runs = {precision: [pool.submit(self.accuracy, precision, seed) for seed in one_gpu.SEEDS]
                    for precision in HALVES}
        for precision, seeds in runs.items():
            found = [run.result() for run in seeds]
            print(f"{precision}: {mean(found):.4f}, {found}")
            self.assertLessEqual(abs(mean(found) - mean(wide)), 0.005, precision)


if __name__ == "__main__":
    one_gpu.JobTest.program, FILE = sys.argv[1], Path(sys.argv[2])
    one_gpu.skip_without_data()
    unittest.main(argv=sys.argv[:1])
