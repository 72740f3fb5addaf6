#!/usr/bin/env python3
"""Compares stage 06 in halves with itself in fp32: samples a second, and bytes.

The runs take turns, so that a slow minute of the machine hits all, and medians are compared. Start-up,
the first step and the evaluation are not in the time. Bytes are counted, so they hold everywhere; time
on a simulated GPU says nothing about a real one: this CPU has no arithmetic in halves, and every
product widens its factors first.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
from runner import RunFailed, Runner  # noqa: E402  (after the path)

CONTENDERS = {
    "fp32": (),
    "fp16": ("--precision", "fp16"),
    "bf16": ("--precision", "bf16"),
    "fp16, sums in fp16": ("--precision", "fp16", "--reduce-dtype", "same"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="build/sim/bin/06_mixed_precision")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--layers", default="784-512-256-10")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--global-batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    program, steps = arguments.program.resolve(), arguments.steps
    speeds = {name: [] for name in CONTENDERS}
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        run = Runner(program.parent, folder, "--data", arguments.data, "--layers", arguments.layers,
                     "--global-batch", str(arguments.global_batch), "--steps", str(steps))
        try:
            for turn in range(arguments.rounds):
                print(f"round {turn + 1} of {arguments.rounds}", file=sys.stderr)
                for name, options in CONTENDERS.items():
                    results[name] = run(program.name, arguments.ranks, *options)
                    speeds[name].append(results[name].end["samples_per_second"])
        except RunFailed as error:
            sys.exit(f"compare_precision: {error}")

    print(f"\n{arguments.layers}, batch {arguments.global_batch}, {arguments.ranks} ranks,"
          f" {arguments.rounds} rounds of {steps} steps")
    print("                      samples/s, median   lowest  highest  of fp32   sent in a step"
          "   peak memory")
    base = median(speeds["fp32"])
    for name, values in speeds.items():
        end = results[name].end
        sent = end["traffic"][0]["collective_bytes"] / steps
        print(f"  {name:20}{median(values):17,.0f}{min(values):9,.0f}{max(values):9,.0f}"
              f"{median(values) / base:9.2f}{sent:17,.0f}{end['peak_device_bytes'] / 2**20:10.1f} MiB")
    device = results["fp32"].run
    print(f"\non {device['device']}" + ("; this is no hardware result" if device["simulated"] else ""))


if __name__ == "__main__":
    main()
