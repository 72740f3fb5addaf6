#!/usr/bin/env python3
"""Prints a run's metrics as a table, and fails if its test accuracy is not above a bound."""

import argparse
import sys

from metrics import MetricsError, by_epoch, decimals, device_name, mean_loss, read_metrics


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics", help="file that --metrics wrote")
    parser.add_argument("--least-accuracy", type=float, metavar="SHARE")
    arguments = parser.parse_args()
    try:
        run, steps, end = read_metrics(arguments.metrics)
    except MetricsError as error:
        print(f"summary: {error}", file=sys.stderr)
        return 1

    print(f"\n{run['stage']} on {device_name(run)}\n")
    print("  epoch   steps   mean training loss   seconds")
    for epoch, part in by_epoch(steps).items():
        seconds = sum(step["seconds"] for step in part)
        print(f"  {epoch:5}   {len(part):5}   {mean_loss(part):18.4f}   {seconds:7.2f}")
    print()
    print(f"  test accuracy        {decimals(end['test_accuracy'], 4)}")
    print(f"  test loss            {decimals(end['test_loss'], 4)}")
    print(f"  samples per second   {decimals(end['samples_per_second'], 0)}")
    print(f"  parameter checksum   {end['parameter_checksum']}\n")
    least = arguments.least_accuracy
    if least is not None and not (end["test_accuracy"] or 0) > least:
        print(f"summary: the test accuracy should be above {least}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
