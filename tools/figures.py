#!/usr/bin/env python3
"""Makes the figures of the lessons, and what the player plays, all again from runs of the programs.

    ./course figures [WHAT]                 all, or one of those that --list shows
    python3 tools/figures.py build/sim/bin [WHAT]
    python3 tools/figures.py --list

Pictures go to docs/figures, recordings to docs/recordings, what is measured on the way to runs/. A
figure that needs matplotlib is skipped, with that reason, where there is none.
"""

import argparse
import importlib.util
import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from sources import ROOT

TOOLS, FIGURES, RUNS = ROOT / "tools", ROOT / "docs/figures", ROOT / "runs"


class Figure(NamedTuple):
    """How one is made: `make(programs)` yields commands, as lists of words, or (command, file) where
    the command's output goes to a file."""
    targets: tuple  # programs to build
    make: object
    draws: bool = True  # needs matplotlib


def python(script, *words):
    return [sys.executable, ROOT / script, *words]


def gradient_error(programs):
    table = RUNS / "gradient_error.txt"
    yield [programs / "gradient_error"], table
    yield python("tools/plot_gradient_error.py", table, FIGURES / "gradient_error.png")


def equal_losses(programs):
    files = []
    for precision, activation, size in itertools.product(
            ("fp32", "fp64"), ("relu", "gelu"), (256, 128, 86, 64)):
        files.append(RUNS / f"equal/{precision}-{activation}-{size}.jsonl")
        yield [programs / "02_grad_accum", "--steps", 200, "--precision", precision, "--activation",
               activation, "--micro-batch", size, "--quiet", "--metrics", files[-1]]
    yield python("tools/plot_equal_losses.py", FIGURES / "equal_losses.png", *files)


def peak_memory(programs):
    files = []
    for size, way in itertools.product((4096, 2048, 1024, 512, 256, 128, 64),
                                       ("running", "pairwise")):
        files.append(RUNS / f"memory/{way}-{size}.jsonl")
        yield [programs / "02_grad_accum", "--global-batch", 4096, "--steps", 1, "--micro-batch",
               size, "--accumulate", way, "--quiet", "--metrics", files[-1]]
    yield python("tools/plot_peak_memory.py", FIGURES / "peak_memory.png", *files)


def ring(programs):
    files = [RUNS / f"ring_{ranks}.json" for ranks in range(1, 9)]
    for ranks, file in enumerate(files, 1):
        yield python("tools/launch.py", "-n", ranks, "--timeout", 120, programs / "ring_steps",
                     "--json", file)
    yield python("tools/plot_ring.py", *files, FIGURES / "ring.png")


def allreduce_time(programs):
    yield python("bench/compare_allreduce.py", programs / "allreduce_perf", "--picture",
                 FIGURES / "allreduce_time.png")


def overlap(programs):
    yield python("tools/plot_overlap.py", programs, FIGURES / "overlap.png")


def gradient_exponents(programs):
    histograms = RUNS / "gradient_exponents.json"
    yield [programs / "gradient_exponents"], histograms
    yield python("tools/plot_gradient_exponents.py", histograms,
                 FIGURES / "gradient_exponents.png")


def scaling(programs):
    results = RUNS / "scaling.jsonl"
    yield python("tools/sweep.py", programs / "07_scaling_rules", results)
    yield python("tools/plot_scaling.py", results, FIGURES / "scaling.png")


def recordings(programs):
    yield python("tools/make_recordings.py", programs)


ALL = {
    "gradient_error": Figure(("gradient_error",), gradient_error),
    "equal_losses": Figure(("02_grad_accum",), equal_losses),
    "peak_memory": Figure(("02_grad_accum",), peak_memory),
    "ring": Figure(("ring_steps",), ring),
    "allreduce_time": Figure(("allreduce_perf",), allreduce_time),
    "overlap": Figure(("05_nccl_ddp",), overlap),
    "gradient_exponents": Figure(("gradient_exponents",), gradient_exponents),
    "scaling": Figure(("07_scaling_rules",), scaling),
    "recordings": Figure(("ring_steps", "05_nccl_ddp"), recordings, draws=False),
}


def make(figure, programs):
    """Whether all of its commands went well; the first that does not is the last."""
    for command in figure.make(programs):
        command, file = command if isinstance(command, tuple) else (command, None)
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=ROOT, text=True, check=False, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE)
        if done.returncode != 0:
            print(f"figures: ended with {done.returncode}: {' '.join(words)}", file=sys.stderr)
            return False
        if file:
            file.write_text(done.stdout, encoding="utf-8")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="what there is, and which programs it needs")
    parser.add_argument("--targets", action="store_true", help="only print the programs that are needed")
    parser.add_argument("words", nargs="*", help="the folder of the programs, then WHAT")
    arguments = parser.parse_args()
    if arguments.list:
        for name, figure in ALL.items():
            print(f"{name:16}{' '.join(figure.targets)}")
        return 0
    words = arguments.words if arguments.targets else arguments.words[1:]
    names = list(ALL) if words in ([], ["all"]) else words
    if unknown := [name for name in names if name not in ALL]:
        print(f"figures: no figure '{unknown[0]}'; there is: all {' '.join(ALL)}", file=sys.stderr)
        return 2
    if arguments.targets:
        print("\n".join(sorted({target for name in names for target in ALL[name].targets})))
        return 0
    if not arguments.words:
        parser.error("which folder are the programs in?")
    programs, failed = Path(arguments.words[0]).resolve(), []
    can_draw = importlib.util.find_spec("matplotlib") is not None
    for folder in (FIGURES, RUNS / "equal", RUNS / "memory"):
        folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if ALL[name].draws and not can_draw:
            print(f"{name}: skipped, {sys.executable} has no matplotlib (Debian: python3-matplotlib)")
            continue
        begin = time.monotonic()
        made = make(ALL[name], programs)
        print(f"{name}: {'made' if made else 'FAILED'} in {time.monotonic() - begin:.0f} s", flush=True)
        failed += [] if made else [name]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
