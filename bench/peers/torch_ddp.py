#!/usr/bin/env python3
"""One rank of training with PyTorch's DistributedDataParallel over Gloo, on the CPU.

compare_ddp.py starts one a rank, with torch's variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
Rank 0 prints one JSON line. The clock runs over the training steps alone, from the end of the third,
for DDP arranges its buckets anew after the first.
"""

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from train_pytorch import load  # noqa: E402  (after the path)

WARM_UP = 3


def mlp(sizes, activation):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def made_up(sizes, loss):
    """Inputs and targets to draw batches from."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(8192, sizes[0], generator=generator)
    targets = (torch.randn(8192, sizes[-1], generator=generator) if loss == "mse"
               else torch.randint(sizes[-1], (8192,), generator=generator))
    return inputs, targets


def batches(inputs, targets, batch, micro_batches, steps):
    """For each step the micro-batches of this rank: `batch` samples each."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole = batch * micro_batches * ranks
    generator = torch.Generator().manual_seed(1)  # the same order on all ranks
    done = 0
    while True:
        order = torch.randperm(len(inputs), generator=generator)
        for begin in range(0, len(order) - whole + 1, whole):
            if done == steps:
                return
            mine = order[begin + rank * batch * micro_batches:][:batch * micro_batches]
            yield [(inputs[ids], targets[ids]) for ids in mine.split(batch)]
            done += 1


def train(model, parts, loss_function, optimizer, synchronise):
    """Seconds of the steps after the first three, and their number."""
    start, steps = None, 0
    for step in parts:
        optimizer.zero_grad()
        for index, (inputs, targets) in enumerate(step):
            last = index + 1 == len(step)
            quiet = contextlib.nullcontext() if last and synchronise else model.no_sync()
            with quiet:
                (loss_function(model(inputs), targets) / len(step)).backward()
        optimizer.step()
        steps += 1
        if steps == WARM_UP:
            start = time.perf_counter()
    return time.perf_counter() - start, steps - WARM_UP


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", required=True, help="sizes, as 784-512-256-10")
    parser.add_argument("--gelu", action="store_true", help="not ReLU")
    parser.add_argument("--loss", choices=("mse", "cross-entropy"), default="mse")
    parser.add_argument("--batch", type=int, required=True, help="samples of a rank in one pass")
    parser.add_argument("--micro-batches", type=int, default=1, help="passes in one step")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--data", help="a folder with Fashion-MNIST's files; left out: made up")
    parser.add_argument("--no-communication", action="store_true", help="each rank for itself")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    sizes = [int(size) for size in arguments.layers.split("-")]
    if arguments.data:
        inputs, targets = load(arguments.data, "train")
        inputs = (inputs - inputs.mean()) / inputs.std()
    else:
        inputs, targets = made_up(sizes, arguments.loss)
    activation = nn.GELU if arguments.gelu else nn.ReLU
    model = nn.parallel.DistributedDataParallel(mlp(sizes, activation), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_function = nn.MSELoss() if arguments.loss == "mse" else nn.CrossEntropyLoss()
    parts = batches(inputs, targets, arguments.batch, arguments.micro_batches, arguments.steps)
    seconds, steps = train(model, parts, loss_function, optimizer, not arguments.no_communication)
    if dist.get_rank() == 0:
        samples = arguments.batch * arguments.micro_batches * dist.get_world_size() * steps
        print(json.dumps({"samples_per_second": samples / seconds, "version": torch.__version__}))


if __name__ == "__main__":
    main()
