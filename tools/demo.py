#!/usr/bin/env python3
"""Shows the course's promise: the losses of 1, 2 and 4 GPUs, step by step, side by side."""

import argparse
import sys
import tempfile

from runner import RunFailed, Runner

STAGE = "04_ring_allreduce"
RANKS = (1, 2, 4)


def table(runs, steps):
    """One line a step: the losses, and how far they are apart relative to one GPU's."""
    print("  step  " + "".join(f"{f'{n} GPU' + 's' * (n > 1):>14}" for n in RANKS)
          + "    difference")
    for index in range(steps):
        losses = [run.losses[index] for run in runs]
        difference = max(abs(loss - losses[0]) for loss in losses) / losses[0]
        print(f"  {index + 1:4}  " + "".join(f"{loss:14.8f}" for loss in losses)
              + f"    {difference:10.1e}")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", help="folder of the built programs")
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = Runner(arguments.programs, scratch, time_limit=120)
        try:
            print("\nOne batch of 256 samples a step, shared out among 1, 2 and 4 GPUs. The loss of"
                  " each step:\n")
            table([run(STAGE, n, "--steps", arguments.steps) for n in RANKS], arguments.steps)
            print("The same, but each GPU keeps the first weights that it drew itself"
                  " (--no-broadcast):\n")
            table([run(STAGE, n, "--steps", arguments.steps, "--no-broadcast") for n in RANKS],
                  arguments.steps)
        except RunFailed as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
