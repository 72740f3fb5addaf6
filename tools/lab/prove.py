"""Proves a lab: each gap fails with its name, each solution passes, each planted mistake is caught.

A mistake is caught if the exercise's tests fail with the message that tests/mutants says, and if
the student is told what it usually means, by a symptom that is there for this mistake. Mistakes in files that a student
does not have are left to ./course mutants.
"""

import re

from mutant_list import Problem, list_of, parse, planted

from lab import answers, stage_data
from lab.check import Result, check_files
from lab.student_tree import files_with_gaps, gaps, handed_out
from lab.test_output import flat

GOOD = ("ok", "-")


def _found(message, output):
    return re.search(message, output) or re.search(message, flat(output))


def _failed_as(result, message, meanings):
    """What is wrong with a result that should have failed with a message, explained by one of
    `meanings`; "ok" if nothing is."""
    if result.verdict == "blocked":
        return f"blocked: {result.reason}"
    if result.verdict == "pass":
        return "PASSED"
    if not result.runs:
        return f"DOES NOT COMPILE: {result.output.strip().splitlines()[0] if result.output else ''}"
    if not _found(message, result.output):
        return "OTHER MESSAGE"
    if not meanings:
        return "NO SYMPTOM IS FOR IT"
    if not set(meanings) & set(result.meanings):
        return "OTHER SYMPTOM: " + "; ".join(result.meanings)
    return "ok"


class Prover:
    def __init__(self, root, build, stage, say=print):
        self.root, self.build, self.stage, self.say = root, build, stage, say
        self.exercises = stage_data.load(root, stage)
        self.common = stage_data.common_symptoms(root)
        self.reference = files_with_gaps(root, stage)
        self.gaps = gaps(root, stage)
        self.rows = []

    def _check(self, exercise, files):
        mine = self.gaps[exercise.number]
        blamed = [self.build.overlay / path for path in files]
        return check_files(self.root, self.build, exercise, files, mine, self.common, blamed)

    def _row(self, exercise, what, verdict, result=None):
        seconds = sum(run.seconds for run in result.runs) if result else 0
        self.rows.append((exercise.number, what, verdict, f"{seconds:.0f} s"))
        self.say(f"{exercise.number} {what}: {verdict}")
        if result and verdict not in GOOD:
            tail = result.output.strip().split("\n")[-25:]
            self.say("\n".join(f"    {line}" for line in [result.reason, *tail] if line))

    def stub(self, exercise):
        """The gap compiles, and its tests fail by its name. Other gaps hold their solutions."""
        files = {path: handed_out(text, self.exercises, path, {exercise.number})
                 for path, text in self.reference.items()}
        result = self._check(exercise, files)
        wanted = f"exercise {re.escape(exercise.number)} is not implemented"
        gap = [s.means for s in self.common if re.search(s.see, "exercise 1.1 is not implemented")]
        self._row(exercise, "stub fails", _failed_as(result, wanted, gap), result)

    def solution(self, exercise):
        result = self._check(exercise, dict(self.reference))
        verdict = "ok" if result.verdict == "pass" else result.verdict.upper() + f" {result.reason}"
        self._row(exercise, "reference passes", verdict, result)

    def mutants(self, exercise):
        path = list_of(self.root, self.stage[:2])
        listed = parse(path.read_text(), path.relative_to(self.root)) if path.is_file() else {}
        for name, mutant in listed.items():
            if mutant.get("exercise") != exercise.number:
                continue
            if mutant["file"] not in self.reference:
                self._row(exercise, f"{name}: not in a student's file", "-")
                continue
            try:
                text = planted(self.reference[mutant["file"]], mutant)
            except Problem as problem:
                self._row(exercise, name, str(problem))
                continue
            result = self._check(exercise, {**self.reference, mutant["file"]: text})
            means = [s.means for s in (*exercise.symptoms, *self.common) if name in s.mutants]
            self._row(exercise, name, _failed_as(result, mutant["message"], means), result)

    def questions(self, exercise, tree):
        """No answers fail, those that a run gives pass, each wrong one is told as one."""
        empty = Result(exercise.number, exercise.title, exercise.points, "fail")

        def check(given):
            return answers.check(tree, self.build, exercise, empty, given)

        none = check({q["key"]: "" for q in exercise.questions})
        self._row(exercise, "no answers fail", "ok" if none.verdict == "fail" else "PASSED")
        right = answers.right_answers(self.build, exercise)
        passed = check(right)
        self._row(exercise, "right answers pass", "ok" if passed.verdict == "pass" else
                  f"{passed.verdict.upper()} {passed.reason}")
        for question in exercise.questions:
            for wrong in question.get("wrong", []):
                judged = answers.judge(question, wrong["answer"], right[question["key"]])
                told = judged.verdict == "fail" and wrong["means"] in judged.text
                self._row(exercise, f"{question['key']} = {wrong['answer']}",
                          "ok" if told else "NOT TOLD")

    def run(self, tree, only=None):
        """Tries the exercises, or those of `only`; returns whether all is as it must be."""
        for number in sorted(set(self.gaps) - set(self.exercises)):
            self.rows.append((number, "a gap that labs/ does not know", "UNKNOWN", ""))
        for number, exercise in self.exercises.items():
            if only and number not in only:
                continue
            if exercise.questions:
                self.questions(exercise, tree)
            if not exercise.tests:
                continue
            if number not in self.gaps:
                self._row(exercise, "no source has a gap for it", "MISSING")
            else:
                self.stub(exercise)
                self.solution(exercise)
                self.mutants(exercise)
        return all(row[2] in GOOD for row in self.rows)
