#!/usr/bin/env python3
"""Checks exercise 7.4: a table of predictions for three batches or more, by running it again.

    check_predictions.py PROGRAM TABLE

PROGRAM is stage 07's. TABLE is a text with rows such as

    | batch | rule    | predicted          | observed             |
    |-------|---------|--------------------|----------------------|
    | 512   | linear  | as good as 64      | accuracy 0.8780      |
    | 4096  | warm-up | does not save it   | diverged at step 23  |

Each is run in the setting of the sweep (tools/sweep.py) with seed 1. What was observed must come out
again: whether it diverges, or the accuracy within a point. A prediction may have been wrong.
"""

import re
import sys
from pathlib import Path

import sweep

TOLERANCE = 0.01  # other CPUs round otherwise
OBSERVED = re.compile(r"accuracy (0\.\d+)|diverged at step (\d+)")


def rows(text):
    """The cells of each row below the head."""
    lines = [line.strip().strip("|").split("|") for line in text.splitlines()
             if line.strip().startswith("|")]
    cells = [[cell.strip() for cell in line] for line in lines]
    return [row for row in cells if len(row) == 4 and row[0].isdigit()]


def faults(row):
    """What is wrong with a row before it is run, or nothing."""
    batch, rule, predicted, observed = row
    if not 1 <= int(batch) <= 1 << 20:
        return f"batch {batch}; expected 1 to {1 << 20}"
    if rule not in sweep.RULES:
        return f"batch {batch}: rule '{rule}'; expected one of {', '.join(sweep.RULES)}"
    if not predicted:
        return f"batch {batch}, {rule}: no prediction"
    if not OBSERVED.fullmatch(observed):
        return (f"batch {batch}, {rule}: observed '{observed}'; expected 'accuracy 0.8780' or "
                "'diverged at step 23'")
    return None


def check(program, path, setting=sweep.SETTING):
    """Messages about what does not hold; none where the table is right."""
    table = rows(Path(path).read_text(encoding="utf-8"))
    if len({row[0] for row in table}) < 3:
        return [f"{path}: expected rows for three batches or more, found {len(table)}"]
    if wrong := [message for row in table if (message := faults(row))]:
        return wrong
    for batch, rule, _, observed in table:
        found = sweep.train(program, sweep.Point(int(batch), rule, 1), setting)
        accuracy = OBSERVED.fullmatch(observed)[1]
        same = found["diverged"] is not None if accuracy is None else (
            found["diverged"] is None and abs(found["accuracy"] - float(accuracy)) <= TOLERANCE)
        if not same:
            wrong.append(f"batch {batch}, {rule}: the table has {observed}, the run"
                         f" {sweep.outcome(found)}")
    return wrong


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        wrong = check(*arguments)
    except (OSError, sweep.SweepError) as error:
        wrong = [str(error)]
    for message in wrong:
        print(f"predictions: {message}", file=sys.stderr)
    print("predictions: " + ("do not reproduce" if wrong else "all reproduce"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
