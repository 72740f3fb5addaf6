#!/usr/bin/env python3
"""Checks the reading budget: a stage can be read in one sitting, and its loop stands on one page.

A stage's lines of code are those that are neither blank nor comment; the lines of its training
function are counted as they stand on the page. A section "Read in this order" of the stage's
README.md names its files, all of them; `./course read STAGE` follows it.
"""

import re
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


def largest_stage(stage):
    return LARGEST_STAGE.get(stage, LARGEST_STAGE_ELSE)


def order_section(markdown):
    """The text of the section "Read in this order" with what is below it, or None."""
    lines = markdown.split("\n")
    for i, line in enumerate(lines):
        if begin := re.match(r"(#+) .*read in this order", line, re.IGNORECASE):
            ends = (j for j in range(i + 1, len(lines)) if re.match(r"#+ ", lines[j])
                    and len(lines[j].split()[0]) <= len(begin[1]))
            return "\n".join(lines[i + 1 : next(ends, len(lines))])
    return None


def off_the_path(root, stage):
    """The files of the stage that its page names below "Off the reading path"."""
    page = root / stage / "README.md"
    section = order_section(page.read_text()) if page.is_file() else None
    parts = re.split(r"^#+ .*off the reading path.*$", section or "", flags=re.IGNORECASE | re.M)
    if len(parts) == 1:
        return []
    names = re.findall(r"[\w./-]+\.(?:cuh|cu|cpp|hpp|h)\b", parts[1])
    return [name.removeprefix(f"{stage}/") for name in names]


def reading_order(root, stage):
    """Returns (files of the stage in reading order, those that nobody lists last; messages)."""
    files = [str(p.relative_to(root / stage)) for p in source_files(root, [stage])]
    page = root / stage / "README.md"
    section = order_section(page.read_text()) if page.is_file() else None
    if section is None:
        return files, [f'{stage}/README.md has no section "Read in this order"']
    order, wrong = [], []
    for name in re.findall(r"[\w./-]+\.(?:cuh|cu|cpp|hpp|h)\b", section):
        own = name.removeprefix(f"{stage}/")
        if own in files:
            order.append(own)
        elif not (root / name).is_file() and not (root / stage / name).is_file():
            wrong.append(f"{stage}/README.md: lists {name}, which is not there")
    order = list(dict.fromkeys(order))
    forgotten = [name for name in files if name not in order]
    if forgotten:
        wrong.append(f"{stage}/README.md: the reading order forgets {', '.join(forgotten)}")
    return order + forgotten, wrong


def check_stage(root, stage):
    """Returns (lines of the stage, lines of its training function, messages)."""
    texts = {path.name: path.read_text() for path in source_files(root, [stage])}
    off = off_the_path(root, stage)
    total = sum(lines_of_code(text) for name, text in texts.items() if name not in off)
    training = lines_of_training(texts.get("train.cu", ""))
    largest = largest_stage(stage)
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
        wrong += reading_order(ROOT, stage)[1]
        for message in wrong:
            print(message, file=sys.stderr)
        print(f"reading: {stage} has {total} lines of code, its training function {training} lines")
    return 1 if not found or any(wrong for *_, wrong in found) else 0


if __name__ == "__main__":
    sys.exit(main())
