"""Predictions and numbers: answers.toml in the student's tree, checked by running the program.

Each [[exercise.question]] of a lab has `key`, `ask` and `kind`:

    same_bits   true or false: do the `runs` (two lists of options) of `program` end with one checksum?
    measured    a number: `value` ("end.test_accuracy", "step.-1.loss") of a run of `program` with
                `options` on `ranks` ranks with `variables`, to a relative `within`
    number      a number: `answer`, to a relative `within` (0)
    choice      one of `options`: `answer`
    prediction  anything: what counts is that it was written down
    later       in a students' package, where the answer is not: who grades has it

`wrong`, a list of {answer, means}, says what a wrong answer usually comes of.
"""

import json
import math
import tempfile
import textwrap
import tomllib
from dataclasses import dataclass, replace

from mutant_list import Problem
from runner import Runner, RunFailed

from lab import test_output

FILE = "answers.toml"
HEAD = """# Your answers to exercises without code. Put each in place of "": a number, true or false, or one
# of the words in quotes. ./course lab check EXERCISE runs the program and compares.
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one question."""
    key: str
    ask: str
    verdict: str  # pass, fail, blocked
    text: str  # what was said and what was found


def _comment(text):
    return textwrap.wrap(text, 98, initial_indent="# ", subsequent_indent="# ",
                         break_on_hyphens=False)


def blank(exercise):
    """The part of answers.toml for an exercise, without answers."""
    lines = ["", f'["{exercise.number}"]']
    lines += _comment(exercise.task) if not exercise.tests else []
    for question in exercise.questions:
        ask = question["ask"]
        if question["kind"] == "choice":
            ask += " One of: " + ", ".join(f'"{option}"' for option in question["options"])
        lines += ["", *_comment(ask), f'{question["key"]} = ""']
    return "\n".join(lines) + "\n"


def add_blanks(text, exercises):
    """answers.toml with a part for each exercise that has questions and none yet."""
    text = text or HEAD
    for exercise in exercises:
        if exercise.questions and f'["{exercise.number}"]' not in text:
            text += blank(exercise)
    return text


def without(text, number):
    """answers.toml without the part of an exercise."""
    lines, inside, kept = text.split("\n"), False, []
    for line in lines:
        if line.startswith("["):
            inside = line.strip() == f'["{number}"]'
        if not inside:
            kept.append(line)
    return "\n".join(kept).rstrip("\n") + "\n"


def given(tree):
    """All answers: {number: {key: answer}}."""
    path = tree.folder / FILE
    try:
        return tomllib.loads(path.read_text()) if path.is_file() else {}
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"{tree.name(FILE)}: {error}") from error


def value_at(result, path):
    """`end.test_accuracy` or `step.-1.loss` of a run's metrics."""
    value = {"end": result.end, "run": result.run, "step": result.steps}
    for part in path.split("."):
        value = value[int(part) if isinstance(value, list) else part]
    return value


class Truth:
    """Finds the right answers; each run is made once."""

    def __init__(self, runner):
        self.runner, self.done = runner, {}

    def run(self, question, options):
        ranks, variables = question.get("ranks"), question.get("variables", {})
        key = json.dumps([question["program"], ranks, variables, options])
        if key not in self.done:
            self.done[key] = self.runner(question["program"], ranks, *options, variables=variables)
        return self.done[key]

    def of(self, question):
        """The right answer, or None where any will do."""
        kind = question["kind"]
        if kind == "same_bits":
            first, second = (self.run(question, options).end["parameter_checksum"]
                             for options in question["runs"])
            return first == second
        if kind == "measured":
            return value_at(self.run(question, question["options"]), question["value"])
        if kind in ("number", "choice"):
            return question["answer"]
        if kind == "prediction":
            return None
        raise Problem(f"question {question['key']} is of an unknown kind, {kind}")


def agrees(answer, right, within):
    if isinstance(right, bool) or isinstance(answer, bool) or isinstance(right, str):
        return type(answer) is type(right) and answer == right
    return isinstance(answer, (int, float)) and math.isclose(answer, right, rel_tol=within)


def judge(question, answer, right):
    """Outcome of an answer where the right one is known."""
    key, ask = question["key"], question["ask"]
    if answer is None or answer == "":
        return Outcome(key, ask, "fail", f"{key}: not answered yet")
    if question["kind"] == "later":
        return Outcome(key, ask, "blocked", f"{key}: {as_word(answer)}; whoever grades has the answer")
    if right is None or agrees(answer, right, question.get("within", 0)):
        return Outcome(key, ask, "pass", f"{key}: {as_word(answer)}")
    means = [w["means"] for w in question.get("wrong", []) if agrees(answer, w["answer"], 1e-3)]
    found = "the runs say otherwise" if question["kind"] in ("same_bits", "measured") else "no"
    return Outcome(key, ask, "fail",
                   f"{key}: you say {as_word(answer)}; {found}" + "".join(f". {m}" for m in means))


def as_word(answer):
    return str(answer).lower() if isinstance(answer, bool) else str(answer)


def programs_of(exercise):
    return sorted({q["program"] for q in exercise.questions if "program" in q})


def right_answers(build, exercise):
    """{key: answer} by running."""
    if programs := programs_of(exercise):
        build.build_reference(programs)
    with tempfile.TemporaryDirectory() as scratch:
        truth = Truth(Runner(build.reference / "bin", scratch))
        return {q["key"]: "noted" if (right := truth.of(q)) is None else right
                for q in exercise.questions}


def check(tree, build, exercise, result, answers=None):
    """`result` with what became of the questions of an exercise. `answers` stand for the file's."""
    try:
        mine = given(tree).get(exercise.number, {}) if answers is None else answers
    except Problem as problem:
        return replace(result, reason=str(problem))
    if not any(answer != "" for answer in mine.values()):
        return replace(result, reason=f"not answered yet: {tree.name(FILE)}")
    if unknown := set(mine) - {q["key"] for q in exercise.questions}:
        return replace(result, reason=f"{tree.name(FILE)}: no question {', '.join(sorted(unknown))}")
    if programs := programs_of(exercise):
        if not (built := build.build_reference(programs)).ok:
            return replace(result, verdict="blocked", reason="the reference does not build",
                           output=built.output[-2000:])
    outcomes = []
    with tempfile.TemporaryDirectory() as scratch:
        truth = Truth(Runner(build.reference / "bin", scratch))
        for question in exercise.questions:
            answer = mine.get(question["key"])
            if answer in (None, ""):
                outcomes.append(judge(question, answer, None))
                continue
            try:
                outcomes.append(judge(question, answer, truth.of(question)))
            except RunFailed as error:
                return replace(result, verdict="blocked", reason=f"a run failed: {error}")
    bad = [o for o in outcomes if o.verdict == "fail"]
    if not bad and (open_ones := [o.text for o in outcomes if o.verdict == "blocked"]):
        return replace(result, verdict="blocked", reason="; ".join(open_ones))
    return replace(result, verdict="fail" if bad else "pass",
                   reason=f"{len(outcomes) - len(bad)} of {len(outcomes)} answers are right",
                   failures=tuple(test_output.Failure(o.ask, tree.name(FILE), "", o.text, "", ())
                                  for o in bad))
