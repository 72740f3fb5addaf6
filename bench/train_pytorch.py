#!/usr/bin/env python3
"""Trains the net of stage 01 on Fashion-MNIST with PyTorch, on the CPU, as a person would write it.

Prints one JSON line. The clock runs over the training steps alone, from the end of the first one,
which warms up: reading the data, the first weights and the evaluation are outside, as they are in
our program's samples_per_second. PyTorch gets one thread, but its BLAS may have threads of its own,
which no call to PyTorch limits: OPENBLAS_NUM_THREADS=1 does.
"""

import argparse
import gzip
import json
import time
from pathlib import Path

import numpy
import torch
from torch import nn


def read_idx(folder, name):
    """An IDX file of unsigned bytes, gzipped or not, as an array of its own shape."""
    path = Path(folder) / name
    data = path.read_bytes() if path.exists() else gzip.open(f"{path}.gz").read()
    dimensions = data[3]
    shape = numpy.frombuffer(data, ">u4", dimensions, offset=4)
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


def load(folder, part):
    images = torch.from_numpy(read_idx(folder, f"{part}-images-idx3-ubyte").copy())
    labels = torch.from_numpy(read_idx(folder, f"{part}-labels-idx1-ubyte").copy())
    return images.reshape(len(images), -1).float() / 255, labels.long()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    inputs, labels = load(arguments.data, "train")
    test_inputs, test_labels = load(arguments.data, "t10k")
    mean, deviation = inputs.mean(), inputs.std()
    inputs, test_inputs = (inputs - mean) / deviation, (test_inputs - mean) / deviation

    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    start = 0.0
    samples = -arguments.batch  # the first batch is not counted
    for _ in range(arguments.epochs):
        order = torch.randperm(len(inputs))
        for begin in range(0, len(order), arguments.batch):
            batch = order[begin : begin + arguments.batch]
            loss = nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            start = start or time.perf_counter()
            samples += len(batch)
    seconds = time.perf_counter() - start

    with torch.no_grad():
        accuracy = (model(test_inputs).argmax(1) == test_labels).float().mean().item()
    print(
        json.dumps(
            {
                "samples_per_second": samples / seconds,
                "test_accuracy": accuracy,
                "last_loss": loss.item(),
                "version": torch.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
