"""Runs the stages' programs for the tools that compare runs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from metrics import MetricsError, read_metrics

LAUNCHER = Path(__file__).with_name("launch.py")


class RunFailed(Exception):
    """A program ended with a status other than 0; the message has its command and its errors."""


class Result(NamedTuple):
    run: dict
    steps: list
    end: dict
    checks: list  # with --check-gradients, one dict a step

    @property
    def losses(self):
        return [step["loss"] for step in self.steps]


class Runner:
    def __init__(self, programs, scratch, *options, time_limit=300):
        """`options` are given to every run."""
        self.programs = Path(programs)
        self.scratch = Path(scratch)
        self.options = options
        self.time_limit = time_limit
        self.count = 0

    def __call__(self, stage, ranks, *options, variables=None):
        """Trains with `options` on `ranks` ranks, alone without a launcher where it is None."""
        self.count += 1
        metrics = self.scratch / f"run{self.count}.jsonl"
        command = [str(self.programs / stage), *self.options, *map(str, options), "--quiet", "--metrics",
                   str(metrics)]
        if ranks is not None:
            command = [sys.executable, str(LAUNCHER), "-n", str(ranks), "--timeout",
                       str(self.time_limit), *command]
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  timeout=self.time_limit + 30, check=False,
                                  env={**os.environ, **(variables or {})})
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunFailed(f"{' '.join(command)}: {error}") from error
        if done.returncode != 0:
            raise RunFailed(f"{' '.join(command)}\nended with status {done.returncode}:\n"
                            f"{done.stderr.strip()}")
        try:
            run, steps, end = read_metrics(metrics)
        except MetricsError as error:
            raise RunFailed(str(error)) from error
        with open(metrics, encoding="utf-8") as lines:
            events = [json.loads(line) for line in lines]
        return Result(run, steps, end, [event for event in events if event["event"] == "check"])
