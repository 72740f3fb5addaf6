#!/usr/bin/env python3
"""Compares stage 05 with PyTorch's DistributedDataParallel over Gloo: samples a second.

The runs take turns, so that a slow minute of the machine hits all, and medians are compared. One
thread a rank on both sides. Neither clock covers start-up, data, the first steps or the evaluation.
The last part is strong scaling: the same batch on one device and on two.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
LAUNCH = HERE.parent / "tools" / "launch.py"
sys.path.insert(0, str(HERE.parent / "tools"))
from metrics import read_metrics  # noqa: E402  (after the path)

MLP = "1024-1024-1024-256"
FASHION = "784-512-256-10"
LIMIT = 300  # seconds, of one run


def fail(text):
    sys.exit(f"compare_ddp: {text}")


def ours(program, ranks, *options):
    """The end event of a run, with the losses of its steps."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "metrics.jsonl"
        done = subprocess.run(
            [sys.executable, LAUNCH, "-n", str(ranks), "--timeout", str(LIMIT), program, "--quiet",
             "--metrics", metrics, *map(str, options)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            fail(f"{program} failed with code {done.returncode}\n{done.stderr}")
        _, steps, end = read_metrics(metrics)
    return {**end, "losses": [step["loss"] for step in steps]}


def torch(ranks, *options):
    """What the peer printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    processes = [
        subprocess.Popen(
            [sys.executable, HERE / "peers" / "torch_ddp.py", *map(str, options)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks),
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OPENBLAS_NUM_THREADS": "1",
                 "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)]
    try:
        text = processes[0].communicate(timeout=LIMIT)[0]
        if any(process.wait(timeout=LIMIT) != 0 for process in processes):
            fail("PyTorch failed")
    finally:
        for process in processes:
            process.kill()
    return json.loads(text)


def in_turns(contenders, rounds):
    """{name: the samples a second of each round}, and the last result of each."""
    speeds, last = {name: [] for name in contenders}, {}
    for _ in range(rounds):
        for name, contender in contenders.items():
            last[name] = contender()
            speeds[name].append(last[name]["samples_per_second"])
    return speeds, last


def show(title, speeds, wanted):
    """A table, and the ratio of the first two; whether that is what is wanted."""
    print(f"\n{title}\n{'':30}    median    lowest   highest   samples/s")
    for name, values in speeds.items():
        print(f"  {name:28}{median(values):10,.0f}{min(values):10,.0f}{max(values):10,.0f}")
    first, second, *_ = (median(values) for values in speeds.values())
    ratio = first / second
    print(f"  ratio of the first two        {ratio:8.2f}   (at least {wanted} is expected)")
    return ratio >= wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="build/sim/bin/05_nccl_ddp")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="IDX files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60, help="of a run on made-up data")
    parser.add_argument("--part", choices=("mlp", "fashion", "no_sync", "scaling"), action="append")
    arguments = parser.parse_args()
    program, steps, rounds = arguments.program.resolve(), arguments.steps, arguments.rounds
    parts = arguments.part or ["mlp", "fashion", "no_sync", "scaling"]
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores; {rounds} rounds in turns. Such machines are noisy: trust a ratio no further")
    print("than from lowest to highest.")
    mse = ("--data", "synthetic", "--loss", "mse", "--layers", MLP, "--lr", 0.001)
    good = True

    if "mlp" in parts:
        for ranks in (2, 4):
            speeds, _ = in_turns({
                "stage 05": lambda: ours(program, ranks, *mse, "--global-batch", 64 * ranks,
                                         "--steps", steps),
                "DDP, gloo": lambda: torch(ranks, "--layers", MLP, "--batch", 64, "--steps", steps),
                "DDP without communication": lambda: torch(
                    ranks, "--layers", MLP, "--batch", 64, "--steps", steps, "--no-communication"),
            }, rounds)
            good &= show(f"MLP {MLP}, MSE, 64 a rank, {ranks} ranks", speeds, 1.5)

    if "fashion" in parts:
        speeds, _ = in_turns({
            "stage 05": lambda: ours(program, 2, "--data", arguments.data, "--layers", FASHION,
                                     "--epochs", 1),
            "DDP, gloo": lambda: torch(2, "--layers", FASHION, "--loss", "cross-entropy", "--batch",
                                       128, "--steps", 234, "--data", arguments.data),
        }, rounds)
        good &= show(f"Fashion-MNIST, {FASHION}, global batch 256, 2 ranks", speeds, 1.6)

    if "no_sync" in parts:
        speeds, _ = in_turns({
            "stage 05": lambda: ours(program, 2, *mse, "--global-batch", 512, "--micro-batch", 64,
                                     "--steps", steps // 2),
            "DDP with no_sync": lambda: torch(2, "--layers", MLP, "--batch", 64, "--micro-batches",
                                              4, "--steps", steps // 2),
        }, rounds)
        good &= show(f"MLP {MLP}, 4 micro-batches of 64 a step, 2 ranks", speeds, 1.1)

    if "scaling" in parts:
        smooth = (*mse, "--activation", "gelu", "--global-batch", 256, "--steps", 200)
        speeds, last = in_turns({
            "stage 05, two devices": lambda: ours(program, 2, *smooth),
            "stage 05, one device": lambda: ours(program, 1, *smooth),
            "DDP, two ranks": lambda: torch(2, "--layers", MLP, "--gelu", "--batch", 128,
                                          "--steps", steps),
            "DDP, one rank": lambda: torch(1, "--layers", MLP, "--gelu", "--batch", 256,
                                         "--steps", steps),
        }, rounds)
        good &= show(f"Strong scaling: MLP {MLP}, global batch 256", speeds, 1.5)
        print(f"  DDP's ratio                   "
              f"{median(speeds['DDP, two ranks']) / median(speeds['DDP, one rank']):8.2f}")
        two, one = (last[f"stage 05, {name}"]["losses"] for name in ("two devices", "one device"))
        print("\n  step    loss, one device   loss, two devices   relative difference")
        for step in (1, 10, 50, 200):
            difference = abs(two[step - 1] - one[step - 1]) / one[step - 1]
            print(f"  {step:4}{one[step - 1]:20.9f}{two[step - 1]:20.9f}{difference:22.1e}")
            good &= difference <= 1e-4

    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
