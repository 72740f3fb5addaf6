#!/usr/bin/env python3
"""Draws the training loss of a run by step, from the metrics that --metrics wrote, as a PNG."""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display needed
from matplotlib import pyplot, ticker

from metrics import MetricsError, by_epoch, decimals, device_name, mean_loss, read_metrics

# Okabe and Ito's colours, which keep apart for colour-blind readers.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#5A5A5A"
SMOOTH = 25  # steps: long enough to hide the noise of single batches, short beside an epoch


def running_mean(values, width):
    """The mean of each value and its neighbours on either side, as far as there are.

    Near the beginning the window stays centred, else the steep fall there would bend it upwards.
    """
    means = []
    for i in range(len(values)):
        half = min(width // 2, i)
        window = values[i - half : i + half + 1]
        means.append(sum(window) / len(window))
    return means


def draw(run, steps, end, path):
    losses = [step["loss"] for step in steps]
    numbers = [step["step"] for step in steps]
    figure, axes = pyplot.subplots(figsize=(9, 5), dpi=150, layout="constrained")
    axes.plot(numbers, losses, color=BLUE, alpha=0.3, linewidth=0.7, label="each step's batch")
    smooth = running_mean(losses, SMOOTH)
    axes.plot(numbers, smooth, color=BLUE, linewidth=2, label=f"running mean over {SMOOTH} steps")

    above = axes.get_xaxis_transform()  # x in steps, y from 0 at the bottom to 1 at the top
    epochs = by_epoch(steps)
    for epoch, part in epochs.items():
        first, last, mean = part[0]["step"], part[-1]["step"], mean_loss(part)
        axes.hlines(mean, first, last, color=ORANGE, linewidth=2, linestyle=(0, (5, 2)))
        words = f"epoch {epoch}: {mean:.3f}" if len(epochs) <= 6 else f"{epoch}"
        axes.text((first + last) / 2, 1.02, words, color=ORANGE, ha="center", transform=above)
        if last != numbers[-1]:
            axes.axvline(last + 0.5, color=GREY, linewidth=0.8, linestyle=":")
    axes.plot([], [], color=ORANGE, linewidth=2, linestyle=(0, (5, 2)), label="mean of an epoch")

    axes.set_yscale("log")  # the first steps fall so far that the rest would be flat
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlim(numbers[0], numbers[-1])
    axes.set_xlabel("step (one update of the weights)")
    axes.set_ylabel("training loss (log scale)")
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    result = f"test accuracy {decimals(end['test_accuracy'], 3)} after {numbers[-1]} steps"
    axes.set_title(f"{run['stage']}: {result}", weight="bold", fontsize="x-large", pad=44)
    where = {"ha": "center", "transform": axes.transAxes}
    axes.text(0.5, 1.09, f"on {device_name(run)}", color=GREY, **where)
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.12)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics", help="file that --metrics wrote")
    parser.add_argument("picture", type=Path, help="PNG file to write")
    arguments = parser.parse_args()
    try:
        run, steps, end = read_metrics(arguments.metrics)
    except MetricsError as error:
        print(f"plot_loss: {error}", file=sys.stderr)
        return 1
    if not steps:
        print("plot_loss: a run without steps has no loss to draw", file=sys.stderr)
        return 1
    draw(run, steps, end, arguments.picture)
    print(f"loss by step, as a picture: {arguments.picture.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
