#!/usr/bin/env python3
"""How far can the batch grow? Trains with growing global batches, by each rule for the rate.

    sweep.py PROGRAM RESULTS [--full]      (./course run 07 --sweep [--full])

PROGRAM is stage 07's. Every run makes the same number of epochs, so that a batch twice as large makes
half as many updates. RESULTS gets a JSON line a run; what is there already is not run again, so that
a sweep can be stopped and continued. A run that ends with numbers that are not finite has diverged:
that is a result. Everything else that fails is a failure.
"""

import argparse
import concurrent.futures
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from metrics import MetricsError, by_epoch, mean_loss, read_metrics

BASE_RATE, BASE_BATCH = 0.0125, 64
BATCHES = (256, 1024, 2048, 4096)
ALL_BATCHES = (128, 256, 512, 1024, 2048, 4096, 8192)
RULES = {  # by the name in tables: what the program is told
    "none": ("--scaling", "none"),
    "sqrt": ("--scaling", "sqrt"),
    "linear": ("--scaling", "linear"),
    "warm-up": ("--scaling", "linear", "--warmup-epochs", "1"),
}
BASE_RULE = "none"  # at the base batch all are the same
SEEDS = (1, 2, 3)
MARGIN = 0.005  # of accuracy: as good as the base batch
SETTING = ("--layers", "784-512-256-10", "--epochs", "4", "--schedule", "cosine", "--base-lr",
           str(BASE_RATE), "--base-batch", str(BASE_BATCH))
NON_FINITE = 4  # the program's exit code


class SweepError(Exception):
    """A run failed, or the file of results is not one."""


class Point(NamedTuple):
    batch: int
    rule: str
    seed: int


def points(batches, seeds=SEEDS, rules=tuple(RULES)):
    """All runs; the second seed begins when all of the first are there."""
    for seed in seeds:
        yield Point(BASE_BATCH, BASE_RULE, seed)
        for batch in batches:
            for rule in rules:
                yield Point(batch, rule, seed)


def train(program, point, setting=SETTING):
    """The result of one run, as a dict that JSON can hold."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder, "metrics.jsonl")
        command = [program, *setting, *RULES[point.rule], "--global-batch", str(point.batch), "--seed",
                   str(point.seed), "--quiet", "--metrics", str(metrics)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
        result = {**point._asdict(), "setting": " ".join(setting)}
        diverged = re.search(r"non-finite .* in step (\d+)", done.stderr)
        if done.returncode == NON_FINITE and diverged:
            return {**result, "diverged": int(diverged[1]), "accuracy": None, "early_loss": None}
        if done.returncode != 0:
            raise SweepError(f"{' '.join(command)}\nended with status {done.returncode}:\n"
                             f"{done.stderr.strip()}")
        try:
            run, steps, end = read_metrics(metrics)
        except MetricsError as error:
            raise SweepError(str(error)) from error
        return {**result, "diverged": None, "accuracy": end["test_accuracy"],
                "early_loss": mean_loss(by_epoch(steps)[1]), "steps": len(steps),
                "simulated": run["simulated"]}


def read_results(path, setting=SETTING):
    """The results of this setting, by point. A last line without an end is cut off: a sweep was
    killed while it wrote it."""
    path = Path(path)
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8")
    if not text.endswith("\n"):
        text = text[:text.rfind("\n") + 1]
        path.write_text(text, encoding="utf-8")
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            result = json.loads(line)
            point = Point(*(result[field] for field in Point._fields))
            if result["setting"] == " ".join(setting):
                found[point] = result
        except (ValueError, KeyError, TypeError) as error:
            raise SweepError(f"{path}:{number}: not a result of a sweep ({error!r})") from error
    return found


def say_now(text):
    print(text, flush=True)


def sweep(program, path, wanted, jobs, setting=SETTING, say=say_now):
    """Runs what is missing, `jobs` at once, each result written when it is there."""
    results = read_results(path, setting)
    missing = [point for point in wanted if point not in results]
    if len(missing) < len(wanted):
        say(f"{len(wanted) - len(missing)} of {len(wanted)} runs are in {path} already")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file, \
            concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        started = {pool.submit(train, program, point, setting): point for point in missing}
        try:
            for number, future in enumerate(concurrent.futures.as_completed(started), 1):
                point, result = started[future], future.result()
                results[point] = result
                file.write(json.dumps(result) + "\n")
                file.flush()
                say(f"[{number}/{len(missing)}] batch {point.batch}, {point.rule}, seed {point.seed}:"
                    f" {outcome(result)}")
        finally:
            for future in started:
                future.cancel()
    return results


def outcome(result):
    if result["diverged"] is not None:
        return f"diverged at step {result['diverged']}"
    return f"accuracy {result['accuracy']:.4f}"


def cell(results):
    """The seeds of one batch and rule, as text."""
    if not results:
        return ""
    good = [result["accuracy"] for result in results if result["diverged"] is None]
    bad = sorted(result["diverged"] for result in results if result["diverged"] is not None)
    text = ""
    if good:
        text = f"{sum(good) / len(good):.4f} ±{(max(good) - min(good)) / 2:.4f}"
    if bad:
        text += (", " if good else "") + f"{len(bad)} diverged, step {bad[0]}"
    return text


def as_good(results, batch, rule):
    """Whether all seeds converged, to a mean within the margin of the base batch's."""
    def mean(batch, rule):
        found = [r for p, r in results.items() if (p.batch, p.rule) == (batch, rule)]
        good = [r["accuracy"] for r in found if r["diverged"] is None]
        return sum(good) / len(good) if found and len(good) == len(found) else float("-inf")
    return mean(batch, rule) >= mean(BASE_BATCH, BASE_RULE) - MARGIN


def table(results, setting=SETTING):
    """All results, a row a batch; then how far each rule holds."""
    batches = sorted({point.batch for point in results})
    seeds = len({point.seed for point in results})
    lines = [" ".join(setting), f"test accuracy: mean of {seeds} seeds ± half of their spread", "",
             f"{'batch':>6}" + "".join(f"  {rule:22}" for rule in RULES).rstrip()]
    for batch in batches:
        row = f"{batch:>6}"
        for rule in RULES:
            row += "  " + f"{cell([r for p, r in results.items() if p[:2] == (batch, rule)]):22}"
        lines.append(row.rstrip())
    lines.append(f"\nwithin {100 * MARGIN} points of batch {BASE_BATCH}:")
    for rule in RULES:
        good = [str(b) for b in batches if b != BASE_BATCH and as_good(results, b, rule)]
        lines.append(f"  {rule:8} {', '.join(good) or 'no other batch'}")
    if any(result.get("simulated") for result in results.values()):
        lines.append("trained on simulated GPUs: accuracies are results, times would not be")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("results", type=Path)
    parser.add_argument("--full", action="store_true", help="all batches")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, of one rank each")
    arguments = parser.parse_args()
    wanted = list(points(ALL_BATCHES if arguments.full else BATCHES))
    try:
        results = sweep(arguments.program, arguments.results, wanted, arguments.jobs)
    except SweepError as error:
        print(f"sweep: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nsweep: stopped; the same command goes on from {arguments.results}", file=sys.stderr)
        return 130
    print("\n" + table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
