#!/usr/bin/env python3
"""Draws how the backward pass hides communication: two ranks' streams, and step times by bucket cap.

    /usr/bin/python3 tools/plot_overlap.py build/sim/bin docs/figures/overlap.png

runs stage 05 on two simulated ranks, with a simulated network between them, and keeps what it has
measured in runs/overlap; with --again, what is there is drawn once more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display needed
from matplotlib import pyplot
from matplotlib.patches import Patch

from communication import WARM_UP, communication_of, mean_of, quickest_step, step_window
from intervals import rest_of, union_of
from metrics import MetricsError, read_metrics
from trace_file import TraceError, compute_row, ranks_of, read_trace

LAUNCH = Path(__file__).resolve().parent / "launch.py"
RANKS = 2
NETWORK = "0.4,100"  # GB/s, us: the all-reduces then take about as long as the backward pass
LAYERS = "784-512x8-10"
CAPS = ("0", "0.25", "1.5", "2.5", "5", "25")  # MiB
ROUNDS = 5
# Okabe and Ito's colours, which keep apart for colour-blind readers; markers and dashes differ too.
BLUE, SKY, ORANGE, GREY = "#0072B2", "#56B4E9", "#D55E00", "#5A5A5A"
PALE, PALE_ORANGE = "#C9C9C9", "#F2C4A5"
PHASES = {"forward": SKY, "backward": BLUE}  # all else is pale


def run(programs, *options):
    done = subprocess.run(
        [sys.executable, LAUNCH, "-n", str(RANKS), "--timeout", "120", programs / "05_nccl_ddp",
         "--data", "synthetic", "--layers", LAYERS, "--quiet", *map(str, options)],
        env={**os.environ, "SIMGPU_LINK": NETWORK}, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise OSError(f"05_nccl_ddp ended with {done.returncode}")


def measure(programs, folder):
    """Leaves in the folder a trace with and one without overlap, and the step times by cap."""
    folder.mkdir(parents=True, exist_ok=True)
    for overlap in ("off", "on"):
        run(programs, "--steps", 24, "--overlap", overlap, "--trace", folder / f"{overlap}.json")
    times, buckets = {}, {}
    for _ in range(ROUNDS):  # in turns: what else the machine does is not to hit one cap alone
        for cap in CAPS:
            for overlap in ("off", "on"):
                path = folder / "metrics.jsonl"
                run(programs, "--steps", 12, "--overlap", overlap, "--bucket-mb", cap,
                    "--first-bucket-mb", cap, "--metrics", path)
                _, steps, end = read_metrics(path)
                times.setdefault((cap, overlap), []).append(
                    statistics.median(step["seconds"] for step in steps[WARM_UP:]))
                buckets[cap] = end["traffic"][0]["collectives"] // len(steps)
    rows = [{"cap_mib": float(cap), "overlap": overlap, "buckets": buckets[cap],
             "step_seconds": min(seconds)}
            for (cap, overlap), seconds in times.items()]
    (folder / "step_times.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def draw_bars(axes, intervals, place, height=0.8, **look):
    axes.broken_barh([(start, end - start) for start, end in intervals],
                     (place - height / 2, height), **look)


def draw_streams(axes, trace, overlap):
    """One step: for each rank, its compute stream above its communication."""
    step = quickest_step(trace)
    begin, end = step_window(trace, step)
    labels, place = {}, 0.0
    for rank in ranks_of(trace):
        own = [o for o in trace.operations if o.row[0] == rank and o.step == step]

        def times(operations):
            return union_of(((o.start - begin) / 1e3, (o.end - begin) / 1e3) for o in operations)

        compute = [o for o in own if o.row == compute_row(trace, rank)]
        phase_of = {o: o.range.split("/")[0] for o in compute}
        for phase, color in [*PHASES.items(), (None, PALE)]:
            draw_bars(axes, times(o for o in compute if (
                phase_of[o] == phase if phase else phase_of[o] not in PHASES)), place, color=color)
        collectives = [o for o in own if o.kind == "collective"]
        draw_bars(axes, times(collectives), place + 1, facecolor="white", edgecolor=ORANGE,
                  linewidth=1.2)
        exposed = [(start, stop) for start, stop in rest_of(times(collectives), times(compute))
                   if stop - start > 2e-6 * (end - begin)]  # thinner ones are not to be seen
        draw_bars(axes, exposed, place + 1, facecolor=PALE_ORANGE, edgecolor=ORANGE, hatch="/////",
                  linewidth=0.8)
        for o in collectives:
            axes.text(((o.start + o.end) / 2 - begin) / 1e3, place + 1, o.range.split()[-1],
                      ha="center", va="center", fontsize=8, weight="bold",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
        labels[place], labels[place + 1] = f"rank {rank} compute", "communication"
        place += 2.6
    axes.axvline((end - begin) / 1e3, color=GREY, linewidth=1, linestyle=":")
    axes.text((end - begin) / 1e3, place - 1.1, f" {(end - begin) / 1e3:.0f} ms", color=GREY,
              fontsize=9)
    axes.set_ylim(place - 1.0, -0.7)
    axes.set_yticks(list(labels), labels.values())
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    mean = mean_of([communication_of(trace, rank, [step]) for rank in ranks_of(trace)])
    axes.set_title(f"Overlap {overlap}: of {mean.time / 1e3:.1f} ms of all-reduces"
                   f" {100 * mean.share_hidden:.0f} % are hidden, {mean.exposed / 1e3:.1f} ms are"
                   " exposed", weight="bold", loc="left", fontsize=11)
    return (end - begin) / 1e3


def draw_caps(figure, rows):
    axes = figure.subplots()
    caps = sorted({row["cap_mib"] for row in rows})
    buckets = {row["cap_mib"]: row["buckets"] for row in rows}
    for overlap, color, marker, dashes in (("off", ORANGE, "s", "--"), ("on", BLUE, "o", "-")):
        line = {row["cap_mib"]: 1e3 * row["step_seconds"] for row in rows
                if row["overlap"] == overlap}
        axes.plot(range(len(caps)), [line[cap] for cap in caps], color=color, marker=marker,
                  linestyle=dashes, linewidth=2, label=f"overlap {overlap}")
    axes.legend(loc="lower left", frameon=False)
    axes.set_ylim(0, 1.15e3 * max(row["step_seconds"] for row in rows))
    axes.set_xticks(range(len(caps)), [f"{cap:g}\n{buckets[cap]}" for cap in caps])
    axes.set_xlabel("bucket cap, MiB, and below it how many buckets that makes")
    axes.set_ylabel(f"time of a step, ms (median; the best of {ROUNDS} runs)")
    axes.set_title("The time of a step, by the cap of a bucket", weight="bold", fontsize=11)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def draw(off, on, rows, path):
    figure = pyplot.figure(figsize=(15, 6.6), dpi=120, layout="constrained", facecolor="white")
    left, right = figure.subfigures(1, 2, width_ratios=(2, 1), wspace=0.03)
    above, below = left.subplots(2, 1, sharex=True)
    longest = max(draw_streams(above, off, "off"), draw_streams(below, on, "on"))
    below.set_xlim(0, 1.07 * longest)
    below.set_xlabel("time since the step began, ms")
    below.legend(handles=[
        Patch(color=SKY, label="forward"), Patch(color=BLUE, label="backward"),
        Patch(color=PALE, label="loss, update"),
        Patch(facecolor="white", edgecolor=ORANGE, label="all-reduce of bucket k, hidden"),
        Patch(facecolor=PALE_ORANGE, edgecolor=ORANGE, hatch="/////", label="exposed")],
        loc="upper center", bbox_to_anchor=(0.45, -0.13), ncols=5, frameon=False, fontsize=9)
    draw_caps(right, rows)
    speed, latency = NETWORK.split(",")
    right.supxlabel(f"simulated GPUs and a simulated network of {speed} GB/s and {latency} us",
                    color=GREY, fontsize="small", x=0.98, ha="right")
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="folder with 05_nccl_ddp")
    parser.add_argument("picture", type=Path, help="PNG file to write")
    parser.add_argument("--runs", type=Path, default=Path("runs/overlap"), metavar="FOLDER",
                        help="for what is measured (runs/overlap)")
    parser.add_argument("--again", action="store_true", help="draw what is there")
    arguments = parser.parse_args()
    folder = arguments.runs
    try:
        if not arguments.again:
            measure(arguments.programs, folder)
        rows = json.loads((folder / "step_times.json").read_text(encoding="utf-8"))
        draw(read_trace(folder / "off.json"), read_trace(folder / "on.json"), rows,
             arguments.picture)
    except (OSError, ValueError, KeyError, MetricsError, TraceError) as error:
        print(f"plot_overlap: {error}", file=sys.stderr)
        return 1
    print(f"overlap, as a picture: {arguments.picture.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
