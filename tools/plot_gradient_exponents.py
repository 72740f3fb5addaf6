#!/usr/bin/env python3
"""Draws how many gradients fp16 can hold, and what a loss scale changes, from what gradient_exponents
printed.

    build/sim/bin/gradient_exponents > runs/gradient_exponents.json
    /usr/bin/python3 tools/plot_gradient_exponents.py runs/gradient_exponents.json docs/figures/gradient_exponents.png

It also prints the shares that fp16 flushes to zero.
"""

import argparse
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display needed
from matplotlib import pyplot
from matplotlib.patches import Patch

# Okabe and Ito's colours, which keep apart for colour-blind readers; the hatch differs too.
BLUE, SKY, ORANGE, GREY = "#0072B2", "#56B4E9", "#D55E00", "#5A5A5A"
FLUSHED, SUBNORMAL, LARGEST = -25, -14, 16  # first exponents that are not flushed, are normal, overflow
SCALE = 16  # 65536
RANGE = (-52, 20)


def share_flushed(histogram, scale=0):
    """Of the gradients that are not zero in fp32 already; the gradients times 2^scale."""
    counts = histogram["by_exponent"]
    return sum(n for e, n in counts.items() if int(e) + scale < FLUSHED) / sum(counts.values())


def draw_one(axes, histogram):
    counts = {int(e): n for e, n in histogram["by_exponent"].items()}
    total = sum(counts.values())
    for exponent, count in counts.items():
        flushed, subnormal = exponent < FLUSHED, exponent < SUBNORMAL
        axes.bar(exponent + 0.5, 100 * count / total, width=0.86, edgecolor="white", linewidth=0.3,
                 color=ORANGE if flushed else SKY if subnormal else BLUE,
                 hatch="//////" if flushed else None)
    for exponent in (FLUSHED, SUBNORMAL, LARGEST):  # the last one: above it, infinity
        axes.axvline(exponent, color=GREY, linewidth=1, linestyle="-")
    axes.axvline(FLUSHED - SCALE, color=GREY, linewidth=1.4, linestyle=":")
    axes.text(LARGEST + 0.7, 0.08, "infinite", rotation=90, va="bottom", color=GREY, fontsize=9,
              transform=axes.get_xaxis_transform())
    axes.text(0.94, 0.93, f"{histogram['of']}\nflushed: {100 * share_flushed(histogram):.1f} %\n"
              f"times 65,536: {100 * share_flushed(histogram, SCALE):.1f} %", va="top", ha="right",
              transform=axes.transAxes, fontsize=10,
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlim(RANGE)
    axes.spines[["top", "right"]].set_visible(False)


def draw(data, path):
    histograms = data["histograms"]
    batches = sorted({h["batch"] for h in histograms})
    names = list(dict.fromkeys(h["of"] for h in histograms))
    figure, grid = pyplot.subplots(len(names), len(batches), figsize=(13, 10), dpi=120, sharex=True,
                                   sharey="row", layout="constrained", facecolor="white")
    for histogram in histograms:
        draw_one(grid[names.index(histogram["of"])][batches.index(histogram["batch"])], histogram)
    for column, batch in enumerate(batches):
        top = grid[0][column]
        scaled = top.secondary_xaxis(
            "top", functions=(lambda e: e + SCALE, lambda e: e - SCALE))
        scaled.set_xlabel("exponent after a loss scale of 65,536", color=GREY)
        scaled.tick_params(colors=GREY)
        top.set_title(f"batch {batch:,}", weight="bold")
        grid[-1][column].set_xlabel("exponent of two of the gradient")
    for row in grid:
        row[0].set_ylabel("share, %")
    figure.get_layout_engine().set(rect=(0, 0.04, 1, 0.96))
    figure.legend(handles=[
        Patch(facecolor=ORANGE, hatch="//////", edgecolor="white", label="fp16 flushes it to zero"),
        Patch(facecolor=SKY, label="subnormal in fp16: digits are lost"),
        Patch(facecolor=BLUE, label="normal in fp16"),
        pyplot.Line2D([], [], color=GREY, linestyle=":", linewidth=1.4,
                      label="left of it flushed even after the loss scale")],
        loc="lower center", ncols=4, frameon=False)
    figure.suptitle(f"Gradients after {data['steps']} steps on Fashion-MNIST, computed in fp32 on a"
                    " simulated GPU (not a real GPU);\nof those that are not zero in fp32",
                    fontsize=11)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("histograms", help="file with the output of gradient_exponents")
    parser.add_argument("picture", type=Path, help="PNG file to write")
    arguments = parser.parse_args()
    try:
        data = json.loads(Path(arguments.histograms).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"plot_gradient_exponents: {arguments.histograms}: {error}", file=sys.stderr)
        return 1
    print("flushed to zero by fp16             batch     as it is   times 65,536   zero in fp32")
    for histogram in data["histograms"]:
        zeros, others = histogram["zeros"], sum(histogram["by_exponent"].values())
        print(f"{histogram['of']:32}{histogram['batch']:9,}{100 * share_flushed(histogram):11.1f} %"
              f"{100 * share_flushed(histogram, SCALE):13.1f} %{100 * zeros / (zeros + others):13.1f} %")
    draw(data, arguments.picture)
    print(f"gradients by exponent, as a picture: {arguments.picture.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
