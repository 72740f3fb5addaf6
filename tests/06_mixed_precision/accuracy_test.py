#!/usr/bin/env python3
"""After five epochs of Fashion-MNIST halves know as much as single precision.

    accuracy_test.py PROGRAM FILE

The mean over three seeds, of fp16 and of bf16, must agree within half a point with that in FILE, which
is what stage 02's test has seen in fp32 on one GPU. What fp16 learns without loss scaling is only told.
"""

import json
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "02_grad_accum"))
import accuracy_test as one_gpu  # noqa: E402  (after the path)

FILE = None
WAYS = (("fp16",), ("fp16", "--loss-scale", "1"), ("bf16",))


def mean(values):
    return sum(values) / len(values)


class Accuracy(one_gpu.JobTest):
    def accuracy(self, way, seed):
        path = self.folder / f"{'_'.join(way)}.{seed}.jsonl"
        done = self.job(None, *one_gpu.TRAINING, "--seed", seed, "--metrics", path,
                        "--precision", *way)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.events(path)["end"][0]["test_accuracy"]

    def test_the_mean_of_three_seeds_is_within_half_a_point(self):
        wide = json.loads(FILE.read_text(encoding="utf-8"))
        print(f"fp32: {mean(wide):.4f}, {wide}")
        with ThreadPoolExecutor(2) as pool:  # a run takes about one core
            runs = [pool.submit(self.accuracy, way, seed) for way in WAYS for seed in one_gpu.SEEDS]
            halves = [run.result() for run in runs]
        for index, way in enumerate(WAYS):
            found = halves[index * len(one_gpu.SEEDS):][:len(one_gpu.SEEDS)]
            print(f"{' '.join(way)}: {mean(found):.4f}, {found}")
            if len(way) == 1:
                self.assertLessEqual(abs(mean(found) - mean(wide)), 0.005, way)


if __name__ == "__main__":
    one_gpu.JobTest.program, FILE = sys.argv[1], Path(sys.argv[2])
    one_gpu.skip_without_data()
    unittest.main(argv=sys.argv[:1])
