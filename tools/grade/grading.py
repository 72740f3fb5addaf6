"""Grades exercises: public and hidden tests of each, and its answers.

The course's own solution is graded first. If it does not pass here, nobody else can: the exercise is blocked, and has no
score. If it does, what it did is what is expected: which tests ran, and how many checks each of them made. From then on
whatever goes wrong is the submission's doing.

A status of 0 or a line on the screen is not believed. The test program writes a record at its very end, in a
file and with a word that were made for this run; it must tell of the same tests and of no fewer checks.
"""

import hashlib
import json
import os
import secrets
import shutil
from dataclasses import dataclass, replace

from mutant_list import Problem

from grade import sandbox
from grade.structure import objections
from grade.submission import Submission
from lab import answers, regions, stage_data
from lab.check import Result, check_files
from lab.programs import run_once
from lab.student_tree import StudentTree, files_with_gaps, gaps

PUBLIC, HIDDEN, ANSWERS = "public tests", "hidden tests", "answers"
RANKS = (2, 3, 4)  # that hidden tests choose from
KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")  # of our environment; the rest is nobody's business
BUILD_LIMITS = sandbox.Limits(memory=6 << 30, file=1 << 30)
WHERE = "submission"  # stands before a path in messages


@dataclass(frozen=True)
class Entry:
    """One line of a grade."""
    number: str
    part: str
    result: Result  # its points are those of the part

    @property
    def name(self):
        return f"{self.number} {self.result.title}: {self.part}"


def hidden_tests(exercise, variant):
    """The same programs with other counts, on numbers of ranks that the public tests do not have."""
    found = []
    for test in exercise.tests:
        variables = {**test.variables, "DDP_TEST_VARIANT": str(variant)}
        if test.any_order:
            variables |= {"SIMGPU_THREAD_ORDER": f"random:{variant % 997 + 1}",
                          "SIMGPU_SCHEDULE": f"delays:{variant % 997 + 1}"}
        ranks = test.ranks
        if ranks:
            others = test.hidden or tuple(n for n in RANKS if n not in ranks)
            ranks = others or (RANKS[variant % len(RANKS)],)
        found.append(replace(test, ranks=ranks, variables=variables, any_order=False))
    return replace(exercise, tests=tuple(found))


def parts_of(exercise):
    return [*((PUBLIC, HIDDEN) if exercise.tests else ()), *((ANSWERS,) if exercise.questions else ())]


def _cases(record, nonce):
    """{test: checks} of a record, or None if it is not one that says that all is well."""
    lines = record.split("\n")
    if lines[0] != nonce or lines[1:2] != ["status 0"]:
        return None
    cases = {}
    for line in filter(None, lines[2:]):
        word, checks, failed, *name = line.split(" ")
        if word != "case" or failed != "0":
            return None
        cases[" ".join(name)] = int(checks)
    return cases


class Grader:
    def __init__(self, root, variant, build_of, say=print, only=None, limits=sandbox.Limits()):
        """`build_of(stage)` is a LabBuild. `only`: numbers of exercises, if not all; `limits`: of a run."""
        self.root, self.variant, self.say, self.only = root, variant, say, only
        self.limits = limits
        self.user = sandbox.free_user()
        self.builds, self.build_of = {}, build_of
        self.common = stage_data.common_symptoms(root)
        self.sources = self._checksum()

    def _checksum(self):
        """Of all that decides what the course's solutions do."""
        checksum = hashlib.sha256()
        folders = ["simgpu", "common", "tests", "cmake", "labs", *sorted(
            p.name for p in self.root.glob("[0-9][0-9]_*"))]
        for folder in folders:
            for path in sorted(p for p in (self.root / folder).rglob("*") if p.is_file()):
                checksum.update(str(path).encode() + path.read_bytes())
        return checksum.hexdigest()

    def build(self, stage):
        if stage not in self.builds:
            build = self.builds[stage] = self.build_of(stage)
            build.runner = self._build
        return self.builds[stage]

    def _build(self, command, limit, environment):
        ran = sandbox.run(command, replace(BUILD_LIMITS, seconds=limit), environment)
        return ran.status, ran.output + (f"\nthe compiler is ended: {ran.ended}" if ran.ended else "")

    # --- one run ----------------------------------------------------------------------------------

    def _run(self, root, program, test, ranks):
        """(Run, what it recorded: {test: checks}, or its output for a program that is no Catch2 program)."""
        nonce, ended = secrets.token_hex(16), []
        with sandbox.Scratch(self.user) as folder:
            record = folder / "record"

            def limited(command, limit, environment):
                mine = {k: v for k, v in environment.items()
                        if k in KEPT or k.startswith(("DDP_TEST_", "DDP_STOP", "OMPI_MCA_", "SIMGPU_"))}
                mine |= {"HOME": str(folder), "TMPDIR": str(folder), "DDP_TEST_RECORD": str(record),
                         "DDP_TEST_NONCE": nonce, "PYTHONDONTWRITEBYTECODE": "1"}
                # A program without ranks has a few threads: a fork bomb is to be small.
                limits = replace(self.limits, seconds=min(limit, self.limits.seconds),
                                 processes=self.limits.processes // (1 if ranks else 4))
                ran = sandbox.run(command, limits, mine, self.user, folder)
                ended.append(ran.ended)
                return ran.status, ran.output + (f"\nended: {ran.ended}" if ran.ended else "")

            run = run_once(root, program, test, ranks, limited)
            recorded = None
            if run.verdict == "pass":
                if test.arguments:
                    recorded = " ".join(run.output.split())
                else:
                    try:
                        with open(os.open(record, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
                            recorded = _cases(file.read(1 << 20), nonce)
                    except (OSError, ValueError):
                        pass
        if ended and ended[0]:
            run = replace(run, verdict="fail", reason=ended[0])
        return run, recorded

    def _key(self, test, ranks):
        return f"{test.words()} {sorted(test.variables.items())} {ranks}"

    # --- what is expected -------------------------------------------------------------------------

    def expected(self, stage):
        """(what the course's solutions recorded, {exercise: why it cannot be graded here}).

        Kept in the build's folder for the next submission.
        """
        build = self.build(stage)
        exercises = self._exercises(stage)
        name = "-".join([str(self.variant), *(number for number in exercises if self.only)])
        path = build.folder / f"expected-{name}.json"
        try:
            kept = json.loads(path.read_text())
            if kept["sources"] == self.sources and not kept["blocked"]:
                return kept["runs"], {}
        except (OSError, ValueError, KeyError):
            pass
        runs, blocked, reference = {}, {}, files_with_gaps(self.root, stage)
        places = gaps(self.root, stage)

        def reference_run(root, program, test, ranks):
            if (key := self._key(test, ranks)) in runs:
                return runs[key][0]
            run, recorded = self._run(root, program, test, ranks)
            if run.verdict == "pass" and not recorded:
                run = replace(run, verdict="blocked", reason="the test program wrote no record")
            runs[key] = (run, recorded)
            return run

        for number, exercise in exercises.items():
            for one in (exercise, hidden_tests(exercise, self.variant)) if exercise.tests else ():
                self.say(f"{number}: the course's own solution, {len(one.tests)} tests")
                result = check_files(self.root, build, one, reference, places.get(number, []),
                                     self.common, [], reference_run)
                if result.verdict != "pass":
                    words = result.reason or (result.runs[-1].words if result.runs else "")
                    blocked.setdefault(number, f"the course's own solution does not pass here: {words}\n"
                                       + result.output[-1500:])
        runs = {key: recorded for key, (_, recorded) in runs.items()}
        build.folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"sources": self.sources, "blocked": blocked, "runs": runs}))
        return runs, blocked

    def _graded_run(self, expected):
        def graded_run(root, program, test, ranks):
            run, recorded = self._run(root, program, test, ranks)
            if run.verdict == "blocked" and (ranks is None or shutil.which("mpirun")):
                return replace(run, verdict="fail", reason=f"it ended as if it had been skipped: {run.reason}")
            if run.verdict != "pass":
                return run
            wanted, why = expected.get(self._key(test, ranks)), ""
            if recorded is None:
                why = "the program ended before its tests did"
            elif isinstance(wanted, dict):
                if missing := [name for name in wanted if name not in recorded]:
                    why = f"tests did not run: {missing[0]}"
                elif fewer := [name for name in wanted if recorded[name] < wanted[name]]:
                    why = f"fewer checks than there are: {fewer[0]}"
            elif recorded != wanted:
                why = "its output is not that of the course's own solution"
            return replace(run, verdict="fail", reason=why, output=f"{run.output}\n{why}") if why else run

        return graded_run

    def _exercises(self, stage):
        return {n: e for n, e in stage_data.load(self.root, stage).items() if not self.only or n in self.only}

    # --- a submission -----------------------------------------------------------------------------

    def _files(self, submission, stage, exercise):
        """({path: text} to lay over the course, {path: why it is not the student's})."""
        files, bad = {}, {}
        for path, text in files_with_gaps(self.root, stage).items():
            files[path], mine = text, submission.files.get(path)
            if mine is None:
                bad[path] = submission.refused.get(path, "not handed in")
                continue
            try:
                if set(regions.regions(text)) - set(regions.regions(mine, path)):
                    raise Problem("marker lines of exercises are gone")
                files[path] = regions.overlay(mine, text, {exercise.number}, f"{WHERE}/{path}", path)
            except Problem as problem:
                bad[path] = str(problem)
        return files, bad

    def _why_not(self, submission, exercise, files, bad, mine):
        """Why an exercise fails before anything is compiled, or ""."""
        for path in mine:
            if path in bad:
                return f"{path}: {bad[path]}"
        for path in mine:
            if any(r.number == exercise.number and regions.is_stub(r.body)
                   for r in regions.regions(submission.files[path]).values()):
                return f"{path}: not written yet"
        for path in files:
            if path not in bad:
                looked_at = exercise if path in mine else replace(exercise, forbidden=())
                if found := objections(files[path], looked_at):
                    return f"{path} {found[0]}"
        return ""

    def _tests(self, submission, stage, exercise, part, expected, empty):
        mine = gaps(self.root, stage).get(exercise.number, [])
        files, bad = self._files(submission, stage, exercise)
        if why := self._why_not(submission, exercise, files, bad, mine):
            return replace(empty, verdict="fail", reason=why)
        tried = exercise if part == PUBLIC else hidden_tests(exercise, self.variant)
        result = check_files(self.root, self.build(stage), tried, files, mine, self.common,
                             [f"{WHERE}/{path}" for path in files], self._graded_run(expected))
        lacking = self.build(stage).lacks() or any(run.verdict == "blocked" for run in result.runs)
        if result.verdict == "blocked" and not lacking:  # the course's solution has passed
            result = replace(result, verdict="fail", reason="it does not compile with what uses it"
                             if "not build" in result.reason else result.reason)
        if result.verdict == "fail" and result.runs and (why := result.runs[-1].reason):
            result = replace(result, reason=why)
        return replace(result, points=empty.points)

    def _answers(self, submission, stage, exercise, empty):
        with sandbox.Scratch(None) as folder:
            tree = StudentTree(self.root, folder)
            if answers.FILE in submission.refused:
                return replace(empty, verdict="fail", reason=f"{answers.FILE}: {submission.refused[answers.FILE]}")
            tree.write(answers.FILE, submission.files.get(answers.FILE, ""))
            try:
                result = answers.check(tree, self.build(stage), exercise, replace(empty, verdict="fail"))
                return replace(result, reason=result.reason.replace(f"{folder}/", ""), failures=tuple(
                    replace(f, where=answers.FILE) for f in result.failures))
            except (Problem, RecursionError, OverflowError, AttributeError, TypeError, ValueError):
                return replace(empty, verdict="fail", reason=f"{answers.FILE} has something that is no answer")

    def grade(self, submission: Submission, stages):
        """Entries of the exercises of some stages."""
        entries = []
        for stage in stages:
            runs = blocked = None
            for exercise in self._exercises(stage).values():
                parts, good = parts_of(exercise), True
                for part in parts:
                    empty = Result(exercise.number, exercise.title, exercise.points / len(parts), "blocked")
                    if part == ANSWERS:
                        result = self._answers(submission, stage, exercise, empty)
                    else:
                        if runs is None:
                            runs, blocked = self.expected(stage)
                        if why := blocked.get(exercise.number):
                            result = replace(empty, reason=why)
                        elif part == HIDDEN and not good:
                            result = replace(empty, verdict="fail",
                                             reason="not run, since public tests failed")
                        else:
                            result = self._tests(submission, stage, exercise, part, runs, empty)
                            good = result.verdict == "pass"
                    entries.append(Entry(exercise.number, part, result))
                    self.say(f"{entries[-1].name}: {result.verdict}")
        return entries
