"""./course grade: grades what a student hands in.

    ./course grade SUBMISSION [--stages 04] [--variant SEED] [--out results.json] [--junit FILE]
    ./course grade --prepare [--stages 04] [--variant SEED]

SUBMISSION is a folder, a .zip or a .tar.gz. --prepare grades the course's own solutions alone, so that the first student
does not wait for it. The status is 0 if all passed, 1 if something failed, 77 if something was blocked and nothing failed, 2 for
a wrong command.
"""

import argparse
import sys
import time
from pathlib import Path

from mutant_list import Problem
from sources import ROOT

from grade import grading, report, sandbox
from grade.sandbox import MIB, Limits
from grade.submission import Submission, take
from lab import answers, stage_data
from lab.build import LabBuild
from lab.student_tree import files_with_gaps

FAILED, BLOCKED = 1, 77


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="./course grade", description="Grades what a student hands in.",
                                     epilog="docs/grading.md says what is graded, and what it cannot prevent.")
    parser.add_argument("submission", nargs="?", type=Path, help="a folder, a .zip or a .tar.gz")
    parser.add_argument("--stages", metavar="03,04", help="these alone; an exercise, 4.1, works too (all)")
    parser.add_argument("--variant", type=int, default=1, metavar="SEED",
                        help="what hidden tests count on: choose one that no student knows (1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="Gradescope's results.json")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="the same as JUnit's XML")
    parser.add_argument("--hidden", default="after_due_date", choices=report.VISIBILITY,
                        help="when students see hidden tests on Gradescope (after_due_date)")
    parser.add_argument("--prepare", action="store_true", help="only build, and grade the course's own solutions")
    parser.add_argument("--limit", type=float, default=120, metavar="SECONDS", help="for a run, at most (120)")
    parser.add_argument("--memory", type=int, default=3072, metavar="MIB", help="for a run, at most (3072)")
    parser.add_argument("--preset", default="sim", choices=("sim", "cuda"), help="the build (sim)")
    parser.add_argument("--build", type=Path, metavar="FOLDER",
                        help="build there, in a folder for each stage (build/grade)")
    parser.add_argument("--reference", type=Path, metavar="FOLDER",
                        help="the build to take earlier stages from, made where it is missing (build/PRESET)")
    options = parser.parse_args(arguments)
    if (options.submission is None) != options.prepare:
        parser.error("a submission, or --prepare")
    if not 0 <= options.variant < 1 << 63:
        parser.error(f"--variant is {options.variant}; a number from 0")
    return options


def chosen(text):
    """(stages, numbers of exercises or None for all of them)."""
    if not text:
        return stage_data.labs(ROOT), None
    stages, numbers = set(), set()
    for name in text.split(","):
        if "." in name:
            stage, exercise = stage_data.exercise_called(ROOT, name)
            numbers.add(exercise.number)
        else:
            stage = stage_data.stage_called(ROOT, name)
            numbers |= set(stage_data.load(ROOT, stage))
        stages.add(stage)
    return sorted(stages), numbers


def main(arguments):
    options = parse_arguments(arguments)
    stages, only = chosen(options.stages)
    folder = options.build or ROOT / "build/grade" / options.preset

    def build_of(stage):
        return LabBuild(ROOT, [stage], options.preset, folder / stage[:2],
                        options.reference)

    def say(text):
        print(text, file=sys.stderr, flush=True)

    for place in (ROOT, folder):
        if closed := sandbox.closed_folder(place):
            raise Problem(f"root's grader runs tests as a user without rights, who may not enter {closed}; "
                          "put the course where everybody may read it, or chmod o+x that folder")
    begin = time.monotonic()
    grader = grading.Grader(ROOT, options.variant, build_of, say, only,
                            Limits(seconds=options.limit, memory=options.memory * MIB))
    if options.prepare:
        bad = [f"{number}: {why}" for stage in stages for number, why in grader.expected(stage)[1].items()]
        print("\n".join(bad) or "all of the course's own solutions pass here")
        return BLOCKED if bad else 0
    notes = []
    wanted = [answers.FILE, *(path for stage in stages for path in files_with_gaps(ROOT, stage))]
    try:
        submission = take(options.submission, wanted)
    except Problem as problem:
        if not options.submission.exists():
            raise
        submission = Submission({}, {path: str(problem) for path in wanted})
        notes.append(f"The submission cannot be graded: {problem}")
    if not submission.files and not notes:
        notes.append("No file of this course was found in the submission; wanted: " + ", ".join(wanted))
    entries = grader.grade(submission, stages)
    seconds = time.monotonic() - begin
    for entry in entries:
        print(report.text_of(entry), end="\n\n")
    print("\n".join([*notes, report.summary(entries)]))
    if options.out:
        report.write(options.out, report.as_json(report.gradescope(entries, seconds, options.hidden, notes)))
    if options.junit:
        report.write(options.junit, report.junit(entries, seconds))
    verdicts = {entry.result.verdict for entry in entries}
    return FAILED if "fail" in verdicts else BLOCKED if "blocked" in verdicts else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Problem, OSError) as problem:
        print(f"grade: {problem}", file=sys.stderr)
        sys.exit(2)
