#!/usr/bin/env python3
"""Weak and strong scaling of stage 05 as counts and modelled time.

    ./course bench scaling

Strong scaling keeps the batch and cuts it smaller; weak scaling keeps each rank's part and makes the
batch larger. Either way every rank sums the whole gradient in each step, so that its messages stay
what they are while its computing shrinks, or not. All-reduces and bytes are counted in runs of a few
steps. What a rank sends, and the time of that, are by the formula of the ring (stage 04): 2(N-1)
messages and 2(N-1)/N of the bytes for each bucket. Floating-point operations are those of the three
matrix products of each layer (two in the first), by formula.
"""

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
from runner import Runner  # noqa: E402  (after the path)

STEPS = 4
RANKS = (1, 2, 3, 4)
LINKS = {"100 Gbit/s, 20 us": (12.5e9, 20e-6), "450 GB/s, 5 us": (450e9, 5e-6)}


def operations(layers, samples):
    """Of one forward and backward pass: 2 a weight and sample for each product."""
    weights = [a * b for a, b in zip(layers, layers[1:])]
    return 2 * samples * (3 * sum(weights) - weights[0])


def ring_seconds(number, size, ranks, link):
    bandwidth, latency = link
    return 2 * (ranks - 1) * (number * latency + size / ranks / bandwidth)


def table(run, title, batch_of):
    names = "".join(f"{name:>21}" for name in LINKS)
    print(f"\n{title}\n  ranks  batch  of a rank  all-reduces  a rank sends  GFLOP a rank{names}")
    for ranks in RANKS:
        batch = batch_of(ranks)
        result = run("05_nccl_ddp", ranks, "--data", "fashion-mnist", "--steps", STEPS,
                     "--global-batch", batch)
        traffic = result.end["traffic"][0]
        number, size = traffic["collectives"] / STEPS, traffic["collective_bytes"] / STEPS
        layers = result.run["options"]["layers"]
        part = -(-batch // ranks)  # of the busiest rank
        sent = 2 * (ranks - 1) / ranks * size / 1e6
        times = "".join(f"{ring_seconds(number, size, ranks, link) * 1e3:18.3f} ms"
                        for link in LINKS.values())
        print(f"  {ranks:5}  {batch:5}  {part:9}  {number:11.0f}  {sent:9.3f} MB"
              f"  {operations(layers, part) / 1e9:12.2f}{times}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("programs", help="folder of the built programs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = Runner(arguments.programs, scratch)
        print("stage 05, 784-512x8-10, a step; communication by the formula of the ring, not measured")
        table(run, "Strong scaling: a global batch of 240", lambda ranks: 240)
        table(run, "Weak scaling: 64 samples a rank", lambda ranks: 64 * ranks)


if __name__ == "__main__":
    main()
