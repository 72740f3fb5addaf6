#!/usr/bin/env python3
"""Draws accuracy and early loss against the global batch, from the results of a sweep.

    ./course run 07 --sweep
    python3 tools/plot_scaling.py runs/scaling.jsonl docs/figures/scaling.png
"""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display needed
from matplotlib import pyplot
from sweep import BASE_BATCH, BASE_RULE, MARGIN, RULES, SweepError, read_results

# Okabe and Ito's colours, which keep apart for colour-blind readers; markers and dashes differ too.
STYLES = {"none": ("#5A5A5A", "o", ":"), "sqrt": ("#CC79A7", "D", "-."),
          "linear": ("#D55E00", "s", "--"), "warm-up": ("#0072B2", "^", "-")}
NAMES = {"none": "no scaling", "sqrt": "square root", "linear": "linear",
         "warm-up": "linear, one epoch of warm-up"}


def draw_rule(axes, results, rule, field, cross_height):
    """Mean and spread of the seeds that converged; a cross for each that did not."""
    color, marker, dashes = STYLES[rule]
    batches = sorted({p.batch for p in results if p.rule == rule} | {BASE_BATCH})
    good = {}
    for batch in batches:
        for point, result in results.items():
            if point.batch != batch or point.rule != (BASE_RULE if batch == BASE_BATCH else rule):
                continue
            if result["diverged"] is None:
                good.setdefault(batch, []).append(result[field])
            else:
                shift = 1 + 0.05 * (list(RULES).index(rule) - 1.5)
                axes.plot(batch * shift, cross_height, color=color, marker="x", markersize=8,
                          markeredgewidth=2, linestyle="none", clip_on=False)
    mean = [sum(values) / len(values) for values in good.values()]
    below = [m - min(values) for m, values in zip(mean, good.values())]
    above = [max(values) - m for m, values in zip(mean, good.values())]
    axes.errorbar(list(good), mean, (below, above), color=color, marker=marker, linestyle=dashes,
                  linewidth=2, capsize=3, label=NAMES[rule])


def draw(results, path):
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.8), dpi=150, layout="constrained")
    base = [r["accuracy"] for p, r in results.items() if p.batch == BASE_BATCH]
    good = [r["early_loss"] for r in results.values() if r["diverged"] is None]
    top = 2.6  # of the loss: chance is 2.3
    for rule in RULES:
        draw_rule(left, results, rule, "accuracy", 0.79)
        draw_rule(right, results, rule, "early_loss", top)
    if base:
        mean = sum(base) / len(base)
        left.axhspan(mean - MARGIN, mean + MARGIN, color="#DDDDDD", zorder=0)
        left.text(1.02, mean, f"±{100 * MARGIN} points", transform=left.get_yaxis_transform(), color="#5A5A5A",
                  fontsize="small", va="center", rotation=270)
    left.set_ylim(0.79, 0.9)
    left.set_ylabel("test accuracy after all epochs")
    right.set_ylim(min([*good, 0.5]) - 0.1, top)
    right.set_ylabel("mean loss of the first epoch")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0f}")
        axes.set_xlabel("global batch (log scale)")
        axes.grid(color="#DDDDDD", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    left.set_title("How far the batch can grow", weight="bold")
    right.set_title("What warm-up is for", weight="bold")
    left.legend(loc="lower left", frameon=False, fontsize="small")
    seeds = len({p.seed for p in results})
    simulated = ", on simulated GPUs" if any(r.get("simulated") for r in results.values()) else ""
    figure.supxlabel(f"{seeds} seeds: mean, lowest, highest; x: a run that diverged{simulated}",
                     fontsize="small", color="#5A5A5A")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("results")
    parser.add_argument("figure")
    arguments = parser.parse_args()
    try:
        results = read_results(arguments.results)
    except SweepError as error:
        print(f"plot_scaling: {error}", file=sys.stderr)
        return 1
    if not results:
        print(f"plot_scaling: no results in {arguments.results}", file=sys.stderr)
        return 1
    draw(results, arguments.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
