#!/usr/bin/env python3
"""Looks for ReLUs that are on in one run and off in another, in the step after their checkpoints.

    P=build/sim/bin/02_grad_accum
    $P --steps 41 --save runs/whole.safetensors; $P --steps 41 --micro-batch 64 --save runs/cut.safetensors
    $P --steps 42 --dump-samples runs/samples.jsonl
    /usr/bin/python3 tools/flipped_relus.py runs/whole.safetensors runs/cut.safetensors runs/samples.jsonl

The forward pass is computed here, in double, on the same samples from the weights of each of the two
fp32 checkpoints, so it shows what their weights say and not what fp32 made of them. For Fashion-MNIST
as Debian installs it.
"""

import argparse
import gzip
import json
import struct
import sys

import numpy

FOLDER = "/usr/share/datasets/fashion-mnist"


def read_checkpoint(path):
    """(step, [(weight, bias) of each layer])."""
    with open(path, "rb") as file:
        data = file.read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    step = int(header["__metadata__"]["step"])

    def array(name):
        begin, end = (8 + size + offset for offset in header[name]["data_offsets"])
        return numpy.frombuffer(data[begin:end], "<f4").reshape(header[name]["shape"]).astype(float)

    layers = sum(name.startswith("model.") and name.endswith(".bias") for name in header)
    return step, [tuple(array(f"model.layers.{layer}.{part}") for part in ("weight", "bias"))
                  for layer in range(layers)]


def relu_inputs(layers, x):
    """What goes into the ReLUs, (samples, units) a hidden layer."""
    inputs = []
    for weight, bias in layers[:-1]:
        z = x @ weight.T + bias
        inputs.append(z)
        x = numpy.maximum(z, 0)
    return inputs


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs=2, help="files that --save wrote after the same step")
    parser.add_argument("samples", help="file that --dump-samples wrote, with the next step")
    arguments = parser.parse_args()
    (step, first), (other_step, second) = map(read_checkpoint, arguments.checkpoints)
    with open(arguments.samples, encoding="utf-8") as lines:
        ids = {line["step"]: line["ids"] for line in map(json.loads, lines)}
    if step != other_step or step + 1 not in ids:
        print(f"flipped_relus: checkpoints of steps {step} and {other_step}, and samples of"
              f" {len(ids)} steps: this wants two of one step, and the next step's samples",
              file=sys.stderr)
        return 1
    with gzip.open(f"{FOLDER}/train-images-idx3-ubyte.gz") as file:
        images = numpy.frombuffer(file.read()[16:], numpy.uint8).reshape(-1, 784) / 255
    x = (images[ids[step + 1]] - images.mean()) / images.std()
    for layer, (a, b) in enumerate(zip(relu_inputs(first, x), relu_inputs(second, x))):
        print(f"step {step + 1}, layer {layer}: {a.size:,} ReLUs, the input nearest to 0 is"
              f" {numpy.abs(a).min():.1e}, flipped: {((a > 0) != (b > 0)).sum()}")
        for sample, unit in zip(*numpy.nonzero((a > 0) != (b > 0))):
            print(f"  sample {sample}, unit {unit}: {a[sample, unit]:.1e} and"
                  f" {b[sample, unit]:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
