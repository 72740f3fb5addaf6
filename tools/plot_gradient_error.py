#!/usr/bin/env python3
"""Draws how far central differences are from the gradient, from what gradient_error printed.

    build/sim/bin/gradient_error > runs/gradient_error.txt
    python3 tools/plot_gradient_error.py runs/gradient_error.txt docs/figures/gradient_error.png
"""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display needed
from matplotlib import pyplot

# Okabe and Ito's colours, which keep apart for colour-blind readers; markers and dashes differ too.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#5A5A5A"


def read_table(path):
    """The rows (h, error in fp32, error in fp64) of the table."""
    rows = [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    header = rows.index(["h", "fp32", "fp64"])
    return [tuple(map(float, row)) for row in rows[header + 1 :]]


def draw(rows, path):
    steps, single, double = zip(*rows)
    figure, axes = pyplot.subplots(figsize=(9, 5), dpi=150, layout="constrained")
    axes.loglog(steps, single, color=ORANGE, marker="s", linewidth=2, linestyle="--")
    axes.loglog(steps, double, color=BLUE, marker="o", linewidth=2)
    for errors, name, color, left in ((single, "fp32", ORANGE, 72), (double, "fp64", BLUE, 0)):
        best = errors.index(min(errors))
        axes.annotate(f"{name}: best {errors[best]:.0e}\nat h = {steps[best]:.0e}", color=color,
                      xy=(steps[best], errors[best]), xytext=(-left, -14), ha="center", va="top",
                      textcoords="offset points", weight="bold")
    slope = {"color": GREY, "fontsize": "small", "ha": "center"}
    axes.text(0.25, 5e-6, "formula's error\ngrows as h²", **slope)
    axes.text(1.2e-11, 2e-7, "rounding's error\ngrows as 1/h", **slope)
    axes.text(1e-10, 0.9, "L(w + h) and L(w - h) are the same number", **slope)
    axes.set_xlim(4e-13, 2)
    axes.set_ylim(2e-13, 50)
    axes.set_xlabel("step h of the difference (log scale)")
    axes.set_ylabel("largest error of 89 gradients (log scale)")
    axes.set_title("Central differences have a best step, and fp32 is poor at it", weight="bold")
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(1, -0.16, "computed on a simulated GPU (not a real GPU)", color=GREY, ha="right",
              fontsize="small", transform=axes.transAxes)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="file with the output of gradient_error")
    parser.add_argument("picture", type=Path, help="PNG file to write")
    arguments = parser.parse_args()
    try:
        rows = read_table(arguments.table)
    except (OSError, ValueError) as error:
        print(f"plot_gradient_error: {arguments.table}: {error}", file=sys.stderr)
        return 1
    draw(rows, arguments.picture)
    print(f"error of central differences, as a picture: {arguments.picture.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
