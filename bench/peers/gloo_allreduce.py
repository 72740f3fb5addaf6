#!/usr/bin/env python3
"""One rank of an all-reduce through torch.distributed and Gloo, in place, on the CPU.

compare_allreduce.py starts one a rank, with torch's variables RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT. Rank 0 prints a JSON list of [bytes, [seconds of each round]].
"""

import argparse
import json
import time

import torch
import torch.distributed as dist


def measure(count, rounds):
    values = torch.zeros(count)
    dist.all_reduce(values)
    seconds = []
    for _ in range(rounds):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(values)
        slowest = torch.tensor(time.perf_counter() - start, dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        seconds.append(slowest.item())
    return seconds


def check():
    values = torch.arange(1000, dtype=torch.float32) + 100 * dist.get_rank()
    dist.all_reduce(values)
    ranks = dist.get_world_size()
    exact = ranks * torch.arange(1000, dtype=torch.float32) + 50 * ranks * (ranks - 1)
    if not torch.equal(values, exact):
        raise SystemExit("gloo_allreduce: wrong sum")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("sizes", type=int, nargs="+", help="in bytes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    check()
    rows = [[size, measure(size // 4, arguments.rounds)] for size in arguments.sizes]
    if dist.get_rank() == 0:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
