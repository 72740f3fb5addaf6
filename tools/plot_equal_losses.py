#!/usr/bin/env python3
"""Draws how long the losses of runs that cut the same batches differently stay equal.

    P=build/sim/bin/02_grad_accum; mkdir -p runs/equal
    for p in fp32 fp64; do for a in relu gelu; do for m in 256 128 86 64; do
      $P --steps 200 --precision $p --activation $a --micro-batch $m --metrics runs/equal/$p-$a-$m.jsonl
    done; done; done
    /usr/bin/python3 tools/plot_equal_losses.py docs/figures/equal_losses.png runs/equal/*.jsonl

Runs of one activation and precision belong together; the one with the largest micro-batch is what
the others are compared with. Drawn is the largest difference so far, for single steps often agree by
chance. The step from which a run is off by more than 1e-6 is marked and printed: that is all that is
looked for, in the losses alone. That a ReLU has flipped there is a conclusion, from the runs with
GELU, which has nothing to flip, and from those in fp64.
"""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display needed
from matplotlib import pyplot

from metrics import MetricsError, read_metrics

# Okabe and Ito's colours, which keep apart for colour-blind readers; dashes differ too.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#5A5A5A"
LOOKS = [(BLUE, "-"), (ORANGE, (0, (6, 2))), (GREEN, (0, (2, 1.5)))]
JUMP = 1e-6


def differences(paths):
    """{(activation, precision): [(parts, [relative difference of each step's loss]), ...]}."""
    groups = {}
    for path in paths:
        run, steps, _ = read_metrics(path)
        options = run["options"]
        size = options["micro_batch"] or options["global_batch"]
        parts = -(-options["global_batch"] // size)
        group = groups.setdefault((options["activation"], options["precision"]), {})
        group[parts] = [step["loss"] for step in steps]
    result = {}
    for key, group in groups.items():
        whole = group.pop(min(group))
        result[key] = [(parts, [abs(a - b) / b for a, b in zip(losses, whole, strict=True)])
                       for parts, losses in sorted(group.items())]
    return result


def first_jump(values):
    """The first step, from 1, whose difference is above JUMP; None if there is none."""
    return next((step for step, value in enumerate(values, 1) if value > JUMP), None)


def largest_so_far(values):
    return [max(values[: i + 1]) for i in range(len(values))]


def draw_panel(axes, singles, doubles, title):
    steps = range(1, len(singles[0][1]) + 1)
    ends = []
    for (parts, values), (color, dashes) in zip(singles, LOOKS):
        shown = largest_so_far(values)
        axes.semilogy(steps, shown, color=color, linestyle=dashes, linewidth=2)
        ends.append((shown[-1], parts, color))
        if jump := first_jump(values):
            axes.plot(jump, shown[jump - 1], marker="v", color=color, markersize=10,
                      markeredgecolor="white", zorder=3)
    for (_, values), (color, dashes) in zip(doubles, LOOKS):
        axes.semilogy(steps, largest_so_far(values), color=color, linestyle=dashes, linewidth=2)
    # Names at the ends of the lines, moved apart where these meet.
    height = 0.0
    for end, parts, color in sorted(ends):
        height = max(end, height * 6)
        axes.text(steps[-1] + 3, height, f"{parts} parts", color=color, weight="bold", va="center")
    jumps = {first_jump(values) for _, values in singles} - {None}
    if jumps:
        axes.annotate(f"above 1e-6\nfrom step {min(jumps)}:\na ReLU\nhas flipped", (min(jumps), 3e-6),
                      xytext=(3, 3e-5), color=GREY, va="bottom",
                      arrowprops={"arrowstyle": "->", "color": GREY})
    worst = max(max(values) for _, values in doubles)
    axes.text(steps[-1] / 2, 6e-15, f"fp64: at most {worst:.1e}", color=GREY, ha="center")
    axes.text(steps[-1] / 2, 2e-9, "fp32", color=GREY, ha="center")
    axes.axhline(JUMP, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_title(title, weight="bold")
    axes.set_ylim(3e-17, 2)
    axes.set_xlim(0, len(steps) + 32)
    axes.set_xlabel("step (one update of the weights)")
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def draw(groups, path):
    figure, panels = pyplot.subplots(1, 2, figsize=(11, 5.5), dpi=150, layout="constrained",
                                     sharey=True)
    for axes, activation, title in zip(panels, ("relu", "gelu"), ("ReLU", "GELU")):
        draw_panel(axes, groups[activation, "fp32"], groups[activation, "fp64"], title)
    panels[0].set_ylabel("largest relative difference of the loss\nso far, to one pass (log scale)")
    figure.suptitle("How long are the losses equal?", weight="bold", fontsize="x-large")
    figure.text(0.995, 0.005, "computed on a simulated GPU (not a real GPU)", color=GREY, ha="right",
                fontsize="small")
    figure.get_layout_engine().set(rect=(0, 0.03, 1, 0.97))
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, help="PNG file to write")
    parser.add_argument("metrics", nargs="+", help="files that --metrics wrote")
    arguments = parser.parse_args()
    try:
        groups = differences(arguments.metrics)
    except (MetricsError, ValueError) as error:
        print(f"plot_equal_losses: {error}", file=sys.stderr)
        return 1
    wanted = {(a, p) for a in ("relu", "gelu") for p in ("fp32", "fp64")}
    if missing := wanted - {key for key, runs in groups.items() if runs}:
        print(f"plot_equal_losses: no cuts to compare for {sorted(missing)}", file=sys.stderr)
        return 1
    for (activation, precision), runs in sorted(groups.items()):
        for parts, values in runs:
            jump = first_jump(values)
            print(f"{activation} {precision} {parts} parts: largest difference {max(values):.1e},"
                  f" {'never' if jump is None else f'from step {jump}'} above {JUMP:.0e}")
    draw(groups, arguments.picture)
    print(f"how long losses are equal, as a picture: {arguments.picture.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
