#!/usr/bin/env python3
"""How much of the communication stage 05 hides, over a link that takes as long as the backward pass.

The deep net on two ranks. A run with a trace and no link tells how long a backward pass takes; a link
is chosen on which the all-reduces of a step take as long. Then, in turns: with overlap, without it, and
with overlap but no link. What the link costs without overlap is what there is to hide.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
LAUNCH = HERE.parent / "tools" / "launch.py"
sys.path.insert(0, str(HERE.parent / "tools"))
from metrics import read_metrics  # noqa: E402  (after the path)
from trace_file import compute_row, read_trace  # noqa: E402

LATENCY = 100e-6  # seconds
WARM_UP = 10  # steps that are not counted
LIMIT = 120  # seconds, of one run
EXPECTED = 0.7


def run(program, *options, link=None):
    variables = {name: value for name, value in os.environ.items() if name != "SIMGPU_LINK"}
    if link:
        variables["SIMGPU_LINK"] = link
    done = subprocess.run(
        [sys.executable, LAUNCH, "-n", "2", "--timeout", str(LIMIT), program, "--data", "synthetic",
         "--quiet", *map(str, options)], env=variables, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"overlap: {program} failed with code {done.returncode}\n{done.stderr}")


def backward_pass(program, folder):
    """(seconds, all-reduces of a step, their bytes), of rank 0."""
    path, steps = folder / "trace.json", 40
    run(program, "--steps", steps, "--overlap", "off", "--trace", path)
    trace = read_trace(path)
    counted = [o for o in trace.operations if o.row[0] == 0 and o.step > WARM_UP]
    row = compute_row(trace, 0)
    backward = sum(o.time for o in counted if o.row == row and o.range.startswith("backward"))
    reduced = [o for o in counted if o.kind == "collective"]
    of = steps - WARM_UP
    return backward * 1e-6 / of, len(reduced) / of, sum(o.bytes for o in reduced) / of


def step_times(program, steps, folder, *options, link=None):
    path = folder / "metrics.jsonl"
    run(program, "--steps", steps, "--metrics", path, *options, link=link)
    return [step["seconds"] for step in read_metrics(path).steps[WARM_UP:]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="build/sim/bin/05_nccl_ddp")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    program, steps = arguments.program.resolve(), arguments.steps
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        seconds, number, size = backward_pass(program, folder)
        # Two ranks: 2 (N - 1) = 2 messages an all-reduce, of half its bytes each.
        link = f"{size / (seconds - 2 * number * LATENCY) / 1e9:.3f},{LATENCY * 1e6:.0f}"
        print(f"a backward pass takes {seconds * 1e3:.1f} ms, and so do {number:.0f} all-reduces of together\n"
              f"{size / 1e6:.2f} MB over SIMGPU_LINK={link} (GB/s, us)\n")
        ways = {"with overlap": (link, "on"), "without": (link, "off"), "no link": (None, "on")}
        times = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, (over, overlap) in ways.items():
                times[name] += step_times(program, steps, folder, "--overlap", overlap, link=over)
    with_overlap, without, no_link = (median(times[name]) for name in ways)
    for name, values in times.items():
        print(f"  {name:14} {median(values) * 1e3:8.1f} ms a step (median of {len(values)})")
    hidden = (without - with_overlap) / (without - no_link)
    print(f"  hidden         {100 * hidden:8.0f} %  (at least {100 * EXPECTED:.0f} is expected)")
    sys.exit(0 if hidden >= EXPECTED else 1)


if __name__ == "__main__":
    main()
