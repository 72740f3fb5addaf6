#!/usr/bin/env python3
"""Trains 784-512-256-10 on Fashion-MNIST for five epochs with three seeds: mean accuracy at least
0.87, and the first epoch of one seed again, each loss equal to the bit. Exit status 77 (skipped) without the data set.

Usage: accuracy_test.py PROGRAM
"""

import json
import os
import subprocess
import sys
import tempfile


def train(seed, folder, epochs=5):
    """The test accuracy, and the loss of each step."""
    metrics = os.path.join(folder, "metrics.jsonl")
    subprocess.run([sys.argv[1], "--epochs", str(epochs), "--seed", str(seed), "--quiet", "--metrics",
                    metrics], check=True, stdout=subprocess.DEVNULL)
    with open(metrics, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    end = events[-1]
    print(f"seed {seed}: accuracy {end['test_accuracy']:.4f}, checksum {end['parameter_checksum']}",
          flush=True)
    losses = [event["loss"] for event in events if event["event"] == "step"]
    return end["test_accuracy"], losses


def main():
    data = os.path.join(os.environ.get("DDP_DATA_DIR", "/usr/share/datasets"), "fashion-mnist")
    if not os.path.isdir(data):
        print(f"skipped: {data} does not exist")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        runs = [train(seed, folder) for seed in (1, 2, 3)]
        _, again = train(3, folder, epochs=1)
    mean = sum(accuracy for accuracy, _ in runs) / len(runs)
    print(f"mean accuracy {mean:.4f}, at least 0.87 wanted")
    if len(again) != 235 or again != runs[-1][1][:235]:
        print("seed 3 twice gave different losses")
        return 1
    return 0 if mean >= 0.87 else 1


if __name__ == "__main__":
    sys.exit(main())
