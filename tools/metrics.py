"""Reads the metrics of a run: JSON lines, one "run" event, one "step" a step, one "end".

With --check-gradients there is also one "check" a step, which nobody here asks for.
"""

import json
from typing import NamedTuple


class Metrics(NamedTuple):
    run: dict  # stage, options, device, simulated, ...
    steps: list  # one dict a step: step, epoch, loss, samples, seconds, ...
    end: dict  # test_accuracy, test_loss, parameter_checksum, samples_per_second


class MetricsError(Exception):
    """The file is not the metrics of one finished run; the message says where and why."""


def read_metrics(path):
    events = {"run": [], "step": [], "check": [], "end": []}
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    event = json.loads(line)
                    events[event["event"]].append(event)
                except (ValueError, KeyError, TypeError) as error:
                    message = f"{path}:{number}: not an event of a run ({error})"
                    raise MetricsError(message) from error
    except OSError as error:
        raise MetricsError(f"{path}: {error.strerror}") from error
    if len(events["run"]) != 1 or len(events["end"]) != 1:
        counts = f"{len(events['run'])} run and {len(events['end'])} end events"
        raise MetricsError(f"{path}: {counts}; a finished run has one of each")
    return Metrics(events["run"][0], events["step"], events["end"][0])


def by_epoch(steps):
    """The steps of each epoch, as {epoch: [step, ...]} in order."""
    epochs = {}
    for step in steps:
        epochs.setdefault(step["epoch"], []).append(step)
    return epochs


def mean_loss(steps):
    """Mean over samples: a short last batch counts for less."""
    return sum(s["loss"] * s["samples"] for s in steps) / sum(s["samples"] for s in steps)


def decimals(value, digits):
    """A number as text; where there is none, as for a regression's accuracy, metrics have null."""
    return "none" if value is None else f"{value:,.{digits}f}"


def device_name(run):
    """The device, with a plain word where it is not a real one."""
    name = run["device"]
    return f"{name} (not a real GPU)" if run["simulated"] and "imulated" not in name else name
