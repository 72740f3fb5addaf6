#!/usr/bin/env python3
"""Draws the peak of device memory against the size of a micro-batch, from the metrics of runs.

    P=build/sim/bin/02_grad_accum; mkdir -p runs/memory
    for m in 4096 2048 1024 512 256 128 64; do for a in running pairwise; do
      $P --global-batch 4096 --steps 1 --micro-batch $m --accumulate $a --metrics runs/memory/$a-$m.jsonl
    done; done
    /usr/bin/python3 tools/plot_peak_memory.py docs/figures/peak_memory.png runs/memory/*.jsonl

The bytes are those that the program has asked for, counted: they are the same on any device.
"""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display needed
from matplotlib import pyplot, ticker

from metrics import MetricsError, read_metrics

# Okabe and Ito's colours, which keep apart for colour-blind readers; markers and dashes differ too.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#5A5A5A"
MIB = 1 << 20


def points(paths):
    """{(way of adding, global batch): [(size of a micro-batch, peak in bytes), ...]}, by size."""
    lines = {}
    for path in paths:
        run, _, end = read_metrics(path)
        options = run["options"]
        size = options["micro_batch"] or options["global_batch"]
        key = options["accumulate"], options["global_batch"]
        lines.setdefault(key, []).append((size, end["peak_device_bytes"]))
    return {key: sorted(line) for key, line in lines.items()}


def draw(lines, global_batch, path):
    figure, axes = pyplot.subplots(figsize=(9, 5), dpi=150, layout="constrained")
    looks = {"running": (BLUE, "o", "-"), "pairwise": (ORANGE, "s", "--")}
    for (way, _), line in lines.items():
        color, marker, dashes = looks[way]
        sizes, peaks = zip(*[(size, peak / MIB) for size, peak in line])
        axes.plot(sizes, peaks, color=color, marker=marker, linestyle=dashes, linewidth=2)
    running, pairwise = lines["running", global_batch], lines["pairwise", global_batch]
    for size, peak in running:
        axes.annotate(f"{peak / MIB:.1f}", (size, peak / MIB), xytext=(0, -15), color=BLUE,
                      ha="center", textcoords="offset points", fontsize="small",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    for size, peak in pairwise[:-1]:
        axes.annotate(f"{peak / MIB:.1f}", (size, peak / MIB), xytext=(0, 9), color=ORANGE,
                      ha="center", textcoords="offset points", fontsize="small")
    name = {"weight": "bold", "textcoords": "offset points", "ha": "center"}
    size, peak = running[-3]
    axes.annotate("running", (size, peak / MIB), xytext=(0, -32), color=BLUE, **name)
    size, peak = pairwise[1]
    axes.annotate("pairwise: a gradient more\nfor each doubling of the parts", (size, peak / MIB),
                  xytext=(30, 26), color=ORANGE, **name)
    (small, low), (large, high) = running[0], running[-1]
    each = (high - low) / (large - small)
    fixed = (low - small * each) / MIB
    axes.axhline(fixed, color=GREY, linewidth=1, linestyle=":")
    axes.text(large, fixed - 1, "whatever the cut: weights, gradients, velocities, and 32 MiB for"
              " cuBLAS", color=GREY, ha="right", va="top", fontsize="small")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(ticker.FixedLocator([size for size, _ in running]))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:.0f}"))
    axes.set_ylim(0, 1.12 * max(peak for line in lines.values() for _, peak in line) / MIB)
    axes.set_xlabel("samples in a micro-batch (log scale)")
    axes.set_ylabel("peak of device memory, MiB")
    axes.set_title(f"A global batch of {global_batch:,}: the micro-batch decides the memory,"
                   f" {each:,.0f} bytes a sample", weight="bold")
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(1, -0.16, "counted: the bytes that the program has asked for", color=GREY,
              ha="right", fontsize="small", transform=axes.transAxes)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, help="PNG file to write")
    parser.add_argument("metrics", nargs="+", help="files that --metrics wrote")
    arguments = parser.parse_args()
    try:
        lines = points(arguments.metrics)
    except MetricsError as error:
        print(f"plot_peak_memory: {error}", file=sys.stderr)
        return 1
    batches = {batch for _, batch in lines}
    if len(batches) != 1 or {way for way, _ in lines} != {"running", "pairwise"} or \
            min(map(len, lines.values())) < 3:
        print("plot_peak_memory: this wants running and pairwise, one global batch, and three sizes"
              " or more of each", file=sys.stderr)
        return 1
    draw(lines, batches.pop(), arguments.picture)
    print(f"peak of device memory, as a picture: {arguments.picture.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
