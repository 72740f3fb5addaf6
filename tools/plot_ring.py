#!/usr/bin/env python3
"""Draws the ring on four ranks, step by step, and what a rank sends, from what ring_steps recorded.

    for n in 1 2 3 4 5 6 7 8; do ./course run ring_steps --ranks $n -- --json runs/ring_$n.json; done
    python3 tools/plot_ring.py runs/ring_?.json docs/figures/ring.png
"""

import argparse
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display needed
from matplotlib import pyplot
from matplotlib.patches import Rectangle

DRAWN = 4  # ranks
# Okabe and Ito's colours, which keep apart for colour-blind readers; markers and dashes differ too.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#5A5A5A"
TERMS = {1: "#F2F2F2", 2: "#BCD9EA", 3: "#5FA5CF", 4: "#0B4F79"}  # lighter to darker, also in grey


def draw_step(axes, row, before):
    """Ranks as columns, chunks as rows; a frame around each cell that this step has changed."""
    for rank, chunks in enumerate(row["bits"]):
        for chunk, bits in enumerate(chunks):
            terms = bits.bit_count()
            axes.add_patch(Rectangle((rank, chunk), 1, 1, facecolor=TERMS[terms],
                                     edgecolor="white", linewidth=2))
            axes.text(rank + 0.5, chunk + 0.5, str(terms), ha="center", va="center", fontsize=12,
                      color="white" if terms == DRAWN else "black")
            if before is not None and before["bits"][rank][chunk] != bits:
                axes.add_patch(Rectangle((rank + 0.06, chunk + 0.06), 0.88, 0.88, fill=False,
                                         edgecolor=ORANGE, linewidth=2.5))
    title = row["phase"] if row["step"] < 0 else f"{row['phase']} {row['step']}"
    axes.set_title(title, fontsize=11, weight="bold")
    axes.set_xlim(-0.05, DRAWN + 0.05)
    axes.set_ylim(DRAWN + 0.05, -0.05)  # chunk 0 on top
    axes.set_aspect("equal")
    places = [i + 0.5 for i in range(DRAWN)]
    axes.set_xticks(places, range(DRAWN))
    axes.set_yticks(places, range(DRAWN))
    axes.tick_params(length=0)
    axes.set_xlabel("rank")
    axes.set_ylabel("chunk")
    axes.spines[:].set_visible(False)


def draw_steps(figure, rows):
    axes = figure.subplots(2, DRAWN)
    for i, row in enumerate(rows[:DRAWN]):
        draw_step(axes[0][i], row, rows[i - 1] if i else None)
    for i, row in enumerate(rows[DRAWN:]):
        draw_step(axes[1][i + 1], row, rows[DRAWN + i - 1])
    note = axes[1][0]
    note.axis("off")
    note.text(0, 0.5, "The number in a cell:\nhow many ranks' terms\nthe chunk holds there.\n\n"
              "Framed: it came from\nthe left neighbour\nin this step.", va="center",
              fontsize=10, transform=note.transAxes)
    figure.suptitle("The ring on four ranks: 3 steps to add, 3 to hand round", weight="bold")


def draw_bytes(figure, runs):
    """What a rank sends in one all-reduce: counted points over lines by formula."""
    ranks = [run["ranks"] for run in runs]
    buffer = runs[0]["gradient_bytes"] / 1e6
    formulas = ((ORANGE, "s", "--", [(n - 1) * buffer for n in ranks],
                 [run["bytes_sent"]["naive"][0] / 1e6 for run in runs]),
                (GREEN, "^", ":", [(n > 1) * buffer for n in ranks],
                 [max(run["bytes_sent"]["naive"][1:], default=0) / 1e6 for run in runs]),
                (BLUE, "o", "-", [2 * (n - 1) / n * buffer for n in ranks],
                 [max(run["bytes_sent"]["ring"]) / 1e6 for run in runs]))
    axes = figure.subplots()
    for color, marker, dashes, line, counted in formulas:
        axes.plot(ranks, line, color=color, linestyle=dashes, linewidth=2)
        axes.plot(ranks, counted, color=color, marker=marker, linestyle="none")
    label = {"weight": "bold", "fontsize": 10}
    axes.text(ranks[-1] - 1.4, 6 * buffer, "naive, the root: N - 1", color=ORANGE, ha="right",
              **label)
    axes.text(ranks[-1], 2.0 * buffer, "ring, every rank: 2(N - 1)/N", color=BLUE, ha="right",
              **label)
    axes.text(ranks[-1], 0.6 * buffer, "naive, the others: 1", color=GREEN, ha="right", **label)
    axes.set_ylim(bottom=0)
    axes.set_xticks(ranks)
    axes.set_xlabel("ranks N")
    axes.set_ylabel(f"MB that a rank sends (and receives), gradient of {buffer:.2f} MB")
    axes.set_title("The root sends more with every rank", weight="bold")
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(1, -0.15, "points: counted in runs; lines: by the formulas, in gradients", color=GREY,
              ha="right", fontsize="small", transform=axes.transAxes)


def draw(runs, path):
    four = next((run for run in runs if run["ranks"] == DRAWN), None)
    if four is None:
        raise ValueError(f"there is no run of {DRAWN} ranks")
    figure = pyplot.figure(figsize=(15, 6), dpi=120, layout="constrained", facecolor="white")
    left, right = figure.subfigures(1, 2, width_ratios=(1.75, 1), wspace=0.04)
    draw_steps(left, four["steps"])
    draw_bytes(right, runs)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="files of ring_steps, one a number of ranks")
    parser.add_argument("picture", type=Path, help="PNG file to write")
    arguments = parser.parse_args()
    try:
        runs = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.runs]
        draw(sorted(runs, key=lambda run: run["ranks"]), arguments.picture)
    except (OSError, ValueError, KeyError) as error:
        print(f"plot_ring: {error}", file=sys.stderr)
        return 1
    print(f"the ring, as a picture: {arguments.picture.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
