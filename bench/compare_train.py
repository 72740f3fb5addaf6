#!/usr/bin/env python3
"""Compares the speed of stage 01 with PyTorch: samples a second, one epoch of Fashion-MNIST.

The runs take turns, so that a slow minute of the machine hits all, and medians are compared.
Neither side's clock covers start-up, reading the data, the first step or the evaluation.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
from metrics import read_metrics

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def run(command, cores, environment):
    """Runs a command on the given cores; ends the comparison if it fails. Returns its output."""
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"compare_train: {command[0]} failed with code {done.returncode}")
    return done.stdout


def run_ours(program, cores, data):
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "metrics.jsonl"
        run([program, "--epochs", 1, "--quiet", "--data", data, "--metrics", metrics], cores, {})
        start, _, end = read_metrics(metrics)
    return {**end, "device": start["device"]}


def run_pytorch(cores, data, environment):
    command = [sys.executable, HERE / "train_pytorch.py", "--data", data]
    return json.loads(run(command, cores, environment))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="build/sim/bin/01_single_gpu")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="IDX files")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    program, data = arguments.program.resolve(), arguments.data

    every_core = os.sched_getaffinity(0)
    one_core = {max(every_core)}
    # Without the variables, OpenBLAS under PyTorch takes every core whatever PyTorch is told.
    contenders = {
        "ours": lambda: run_ours(program, every_core, data),
        "PyTorch, one thread": lambda: run_pytorch(every_core, data, ONE_THREAD),
        "PyTorch, one thread, but its BLAS free": lambda: run_pytorch(every_core, data, {}),
        "ours, all its threads on one core": lambda: run_ours(program, one_core, data),
        "PyTorch, one thread, on one core": lambda: run_pytorch(one_core, data, ONE_THREAD),
    }
    results = {name: [] for name in contenders}
    for turn in range(arguments.rounds):
        print(f"round {turn + 1} of {arguments.rounds}", file=sys.stderr)
        for name, contender in contenders.items():
            results[name].append(contender())

    speeds = {name: [r["samples_per_second"] for r in runs] for name, runs in results.items()}
    print("\nsamples per second                             median   lowest  highest   accuracy")
    for name, values in speeds.items():
        accuracy = median(r["test_accuracy"] for r in results[name])
        low, high = min(values), max(values)
        print(f"  {name:42}{median(values):9,.0f}{low:9,.0f}{high:9,.0f}{accuracy:11.4f}")

    free, one, blas_free, ours_core, pytorch_core = (median(values) for values in speeds.values())
    print("\nours / PyTorch, medians")
    print(f"  PyTorch with one thread                  {free / one:6.2f}")
    print(f"  the same, but its BLAS free              {free / blas_free:6.2f}")
    print(f"  both on one core, whatever their threads {ours_core / pytorch_core:6.2f}")
    version = results["PyTorch, one thread"][0]["version"]
    print(f"\nPyTorch {version} on the CPU; ours on {results['ours'][0]['device']};")
    print(f"{len(every_core)} cores, {arguments.rounds} rounds, one epoch each, batch 256.")
    print("Such machines are noisy: trust a ratio no further than from lowest to highest.")


if __name__ == "__main__":
    main()
