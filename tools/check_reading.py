#!/usr/bin/env python3
"""Checks the reading budget: a stage can be read in one sitting, and its loop stands on one page.

A stage's lines of code are those that are neither blank nor comment; the lines of its training
function are counted as they stand on the page.
"""

import sys

from sources import ROOT, source_files, stages, without_comments

LARGEST_STAGE = {"01_single_gpu": 800}  # it brings the kernels that all stages use
LARGEST_STAGE_ELSE = 500
TRAINING_FUNCTION = range(30, 45 + 1)


def lines_of_code(text):
    """How many lines of the text are neither blank nor comment."""
    return sum(bool(line.strip()) for line in without_comments(text).split("\n"))


def lines_of_training(text):
    """How many lines the function has that goes over run.steps(); 0 if there is not one such.

    Functions stand at the left margin, as clang-format puts them: this one begins at the last line
    there before the loop, and ends with the first closing brace there after it.
    """
    lines = without_comments(text).split("\n")
    loops = [i for i, line in enumerate(lines) if "run.steps()" in line]
    if len(loops) != 1:
        return 0
    begin = max((i for i in range(loops[0]) if lines[i][:1].strip()), default=0)
    after = range(loops[0], len(lines))
    end = next((i for i in after if lines[i].startswith("}")), len(lines) - 1)
    return end - begin + 1


def check_stage(root, stage):
    """Returns (lines of the stage, lines of its training function, messages)."""
    texts = {path.name: path.read_text() for path in source_files(root, [stage])}
    total = sum(lines_of_code(text) for text in texts.values())
    training = lines_of_training(texts.get("train.cu", ""))
    largest = LARGEST_STAGE.get(stage, LARGEST_STAGE_ELSE)
    wrong = []
    if total > largest:
        wrong.append(f"{stage}: {total} lines of code; a reader gets at most {largest}")
    if training not in TRAINING_FUNCTION:
        fit = f"{TRAINING_FUNCTION[0]} to {TRAINING_FUNCTION[-1]}"
        wrong.append(f"{stage}/train.cu: its training function has {training} lines, not {fit}")
    return total, training, wrong


def main():
    found = [(stage, *check_stage(ROOT, stage)) for stage in stages(ROOT)]
    for stage, total, training, wrong in found:
        for message in wrong:
            print(message, file=sys.stderr)
        print(f"reading: {stage} has {total} lines of code, its training function {training} lines")
    return 1 if not found or any(wrong for *_, wrong in found) else 0


if __name__ == "__main__":
    sys.exit(main())
