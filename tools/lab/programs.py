"""Runs a test of an exercise: a program, once for each number of ranks, with a time limit."""

import re
import shutil
import sys
import time
from dataclasses import dataclass, replace

from processes import clean_environment, run

SKIPPED = 77  # what a program of tests ends with where there is no device
OTHER_ORDERS = {"SIMGPU_THREAD_ORDER": "random:5", "SIMGPU_SCHEDULE": "delays:5"}
ONE_TEST = 10  # seconds that one test of several ranks may take; then it says who waits for whom


@dataclass(frozen=True)
class Run:
    """One run of a program."""
    words: str  # what was run, for people
    ranks: int | None
    verdict: str  # pass, fail, blocked
    output: str
    seconds: float
    timed_out: bool = False
    reason: str = ""  # of blocked


def _verdict(status, output):
    if status == SKIPPED:
        reason = next((line for line in output.split("\n") if line.startswith("skipped: ")), "skipped")
        return "blocked", reason.removeprefix("skipped: ")
    if "No test cases matched" in output or "no test ran" in output:
        return "blocked", "no such test in the program"
    return ("pass" if status == 0 else "fail"), ""


def run_once(root, program, test, ranks, runner=run):
    """Run of a test. `runner` is called as processes.run is."""
    words = test.words() + ("" if ranks is None else f" on {ranks} rank{'s' * (ranks > 1)}")
    if test.variables:
        words = " ".join(f"{name}={value}" for name, value in test.variables.items()) + " " + words
    command = [str(program), *([test.cases] if test.cases else []), *test.arguments]
    if ranks is not None:
        if not shutil.which("mpirun"):
            return Run(words, ranks, "blocked", "", 0, reason="no mpirun here (./course setup)")
        command = [sys.executable, str(root / "tools/launch.py"), "-n", str(ranks), "--timeout",
                   str(test.limit), *command]
    begin = time.monotonic()
    status, output = runner(command, test.limit + (15 if ranks else 0), clean_environment(
        DDP_TEST_TIME_LIMIT=str(ONE_TEST), DDP_STOP_AT_FIRST_FAILURE="1", OMPI_MCA_mpi_yield_when_idle="1", **test.variables))
    seconds = time.monotonic() - begin
    verdict, reason = _verdict(status, output)
    late = status is None or "the job is ended" in output or "is not done after" in output
    output = re.sub(r"(\.\./)+(?=\w)", "", output.replace(f"{root}/", ""))  # paths from the root
    return Run(words, ranks, verdict, output, seconds,
               verdict == "fail" and late, reason)


def runs_of(test, simulated):
    """(test, ranks) of all runs that a test asks for."""
    if test.simulated and not simulated:
        return
    variants = [test]
    if test.any_order and simulated:
        variants.append(replace(test, variables={**test.variables, **OTHER_ORDERS}))
    for variant in variants:
        for ranks in test.ranks or (None,):
            yield variant, ranks
