"""Checks an exercise: builds the student's gap in the reference's surroundings, runs its tests.

Each exercise is checked by itself: in the other gaps of the stage stands the reference's solution,
so that 4.2 can be right before 4.1 is, and nobody is blamed for a mistake in another exercise.
"""

from dataclasses import dataclass, replace

from mutant_list import Problem

from lab import answers, symptoms, test_output
from lab.programs import run_once, runs_of

VERDICTS = ("pass", "fail", "blocked")


@dataclass(frozen=True)
class Result:
    number: str
    title: str
    points: int
    verdict: str  # one of VERDICTS; what is blocked has no points, neither won nor lost
    reason: str = ""  # in a sentence, where no run says it
    runs: tuple = ()  # programs.Run
    failures: tuple = ()  # test_output.Failure of the run that failed first
    waits: tuple = ()  # who waits for whom in it
    errors: tuple = ()  # what the program said when it ended
    meanings: tuple = ()  # what that usually means
    proofs: tuple = ()  # build.Proof
    output: str = ""  # of the compiler, or of the run that failed first

    @property
    def won(self):
        return self.points if self.verdict == "pass" else 0


def _first_lines(output, count=12):
    lines = output.split("\n")
    first = next((i for i, line in enumerate(lines) if "error:" in line or "undefined" in line), 0)
    return "\n".join(lines[max(0, first - 1) : first + count])


def run_tests(root, build, exercise, result, common, run_one=run_once):
    """Builds the programs of an exercise's tests and runs them; `result` with what came of it."""
    simulated = build.preset != "cuda"
    runs = []
    for test in exercise.tests:
        for variant, ranks in runs_of(test, simulated):
            runs.append(run := run_one(root, build.program(test.program), variant, ranks))
            if run.verdict != "pass":
                break
        if runs and runs[-1].verdict != "pass":
            break
    bad = next((run for run in runs if run.verdict == "fail"), None)
    blocked = next((run for run in runs if run.verdict == "blocked"), None)
    result = replace(result, runs=tuple(runs))
    if bad:
        return replace(
            result, verdict="fail", output=bad.output,
            failures=tuple(test_output.failures(bad.output)),
            waits=tuple(test_output.waits(bad.output)),
            errors=tuple(test_output.errors(bad.output)),
            meanings=tuple(symptoms.meanings(bad.output, exercise.symptoms, common)))
    if blocked or not runs:
        return replace(result, verdict="blocked",
                       reason=blocked.reason if blocked else "no test of it runs in this build")
    return replace(result, verdict="pass")


def check_files(root, build, exercise, files, mine, common, blamed, run_one=run_once):
    """Result of an exercise with `files` ({path: text}) over the reference; `mine` are the paths in
    it that must have been compiled, `blamed` the paths that a compiler names for them, `run_one` makes
    one run of a test."""
    result = Result(exercise.number, exercise.title, exercise.points, "blocked")
    if lack := build.lacks():
        return replace(result, reason=lack)
    for step in (build.prepare, lambda: build.lay(files)):
        if not (built := step()).ok:
            return replace(result, reason="what the exercise stands on does not build",
                           output=_first_lines(built.output))
    built = build.build([test.program for test in exercise.tests], blamed)
    if not built.ok:
        if built.blame == "you":
            return replace(result, verdict="fail", reason="it does not compile",
                           output=_first_lines(built.output))
        return replace(result, reason="the reference or its tests do not build",
                       output=_first_lines(built.output))
    result = replace(result, proofs=tuple(build.proof(path) for path in mine))
    for proof in result.proofs:
        if not proof:
            return replace(result, reason=f"the tests were built, but not with your {proof.path}")
    return run_tests(root, build, exercise, result, common, run_one)


def check_exercise(tree, build, stage, exercise, common, stages=None):
    """Result of a student's exercise. `stages` are those that are taken from the student's tree."""
    result = Result(exercise.number, exercise.title, exercise.points, "fail")
    if not exercise.tests:
        return answers.check(tree, build, exercise, result)
    try:
        mine = tree.bodies(stage, exercise.number)
        if not mine:
            return replace(result, verdict="blocked", reason="no source has a gap for it")
        if tree.untouched(stage, exercise.number):
            return replace(result, reason="not written yet: not_implemented() still stands there")
        files = {}
        for other in stages or [stage]:
            keep = {exercise.number} if other == stage else None
            files |= tree.overlay(other, keep)
    except Problem as problem:
        return replace(result, reason=str(problem))
    result = check_files(tree.root, build, exercise, files, list(mine), common,
                         [tree.folder / path for path in files])
    if exercise.questions and result.verdict == "pass":
        return answers.check(tree, build, exercise, result)
    return result
