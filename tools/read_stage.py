#!/usr/bin/env python3
"""Lists a stage's files in reading order, with their lines, against the reading budget.

Usage: read_stage.py STAGE     a stage's folder
"""

import sys

from check_reading import largest_stage, lines_of_code, off_the_path, reading_order
from sources import ROOT, stages


def report(root, stage):
    """The list as text, and whether the order was found and the budget kept."""
    files, wrong = reading_order(root, stage)
    width = max(len(name) for name in files)
    off = off_the_path(root, stage)
    rows, all_lines, all_code = [], 0, 0
    for number, name in enumerate(files, 1):
        text = (root / stage / name).read_text()
        lines, code = text.count("\n"), lines_of_code(text)
        if name not in off:
            all_lines, all_code = all_lines + lines, all_code + code
        rows.append(f"{number:3}  {name:{width}}  {lines:5}  {code:5}"
                    + ("   off the reading path" if name in off else ""))
    largest = largest_stage(stage)
    kept = all_code <= largest
    text = "\n".join([
        f"{stage}, to be read in this order ({stage}/README.md leads through it):",
        f"     {'file':{width}}  lines   code   (code: neither blank nor comment)",
        *rows,
        f"     {'total':{width}}  {all_lines:5}  {all_code:5}   of at most {largest}"
        + ("" if kept else ": TOO LONG"),
        *wrong,
    ])
    return text, kept and not wrong


def main(arguments):
    if len(arguments) != 1 or arguments[0] not in stages(ROOT):
        print(__doc__, file=sys.stderr)
        return 2
    print(report(ROOT, arguments[0])[0])  # whether it is good is for ./course test check
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
