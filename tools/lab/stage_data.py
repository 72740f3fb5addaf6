"""labs/STAGE.toml: what a lab says about its exercises.

    [[exercise]]
    number, title, points
    task      what the student finds in the gap; for questions, what it is about
    hints     three, from vague to exact
    kernel    true if the gap is in a kernel, which cannot throw
    forbidden names that the exercise's file may not use when it is graded (tools/grade/structure.py)
    tests     [{program, cases or arguments, ranks, variables, limit, stop}], see Test
    [[exercise.symptom]]
    see       a regular expression, sought in the output of the tests, lines joined
    means     what such a result usually means
    mutants   the planted mistakes (tests/mutants) that it has to explain
    [[exercise.question]]  in place of a gap, or beside it; answers.py says what it has

labs/common.toml has [[symptom]] entries for all exercises.
"""

import re
import tomllib
from dataclasses import dataclass, field

from mutant_list import Problem
from sources import stages

FOLDER = "labs"


@dataclass(frozen=True)
class Test:
    program: str
    cases: str = ""  # tests of a Catch2 program, as it takes them on its command line
    arguments: tuple = ()  # instead, of a program of another kind
    ranks: tuple = ()  # once for each number; none: as one process without a launcher
    variables: dict = field(default_factory=dict)  # of the environment
    limit: int = 60  # seconds, for a run of the program
    any_order: bool = False  # once more with the threads of a block and the streams in other orders
    simulated: bool = False  # only with simulated GPUs
    hidden: tuple = ()  # numbers of ranks of a grader's hidden runs, where not any from 2 to 4 will do

    def words(self):
        """As a student would type it."""
        return " ".join([self.program, *([f'"{self.cases}"'] if self.cases else []), *self.arguments])


@dataclass(frozen=True)
class Symptom:
    see: str
    means: str
    mutants: tuple = ()


@dataclass(frozen=True)
class Exercise:
    number: str
    title: str
    points: int
    task: str
    hints: tuple
    kernel: bool = False
    forbidden: tuple = ()
    tests: tuple = ()
    symptoms: tuple = ()
    questions: tuple = ()


def _only(entry, needed, optional, where):
    if missing := needed - set(entry):
        raise Problem(f"{where} lacks {', '.join(sorted(missing))}")
    if unknown := set(entry) - needed - optional:
        raise Problem(f"{where} has unknown {', '.join(sorted(unknown))}")
    return entry


def _symptoms(entries, where):
    for entry in entries:
        _only(entry, {"see", "means"}, {"mutants"}, f"{where}: a symptom")
        try:
            re.compile(entry["see"])
        except re.error as error:
            raise Problem(f"{where}: {entry['see']}: {error}") from error
    return tuple(Symptom(e["see"], " ".join(e["means"].split()), tuple(e.get("mutants", [])))
                 for e in entries)


def _test(entry, where):
    _only(entry, {"program"}, set(Test.__dataclass_fields__) - {"program"}, f"{where}: a test")
    lists = {name: tuple(entry[name]) for name in ("arguments", "ranks", "hidden") if name in entry}
    return Test(**{**entry, **lists})


def parse(text, where):
    """The exercises of a lab, by number."""
    try:
        entries = tomllib.loads(text).get("exercise", [])
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"{where}: {error}") from error
    found = {}
    for entry in entries:
        here = f"{where}: exercise {entry.get('number', '?')}"
        _only(entry, {"number", "title", "points", "task", "hints"},
              {"kernel", "forbidden", "tests", "symptom", "question"}, here)
        if len(entry["hints"]) != 3:
            raise Problem(f"{here} has {len(entry['hints'])} hints, not 3")
        if not entry.get("tests") and not entry.get("question"):
            raise Problem(f"{here} needs tests or questions")
        if entry["number"] in found:
            raise Problem(f"{here} is there twice")
        found[entry["number"]] = Exercise(
            entry["number"], entry["title"], entry["points"], " ".join(entry["task"].split()),
            tuple(" ".join(hint.split()) for hint in entry["hints"]), entry.get("kernel", False), tuple(entry.get("forbidden", [])),
            tuple(_test(test, here) for test in entry.get("tests", [])),
            _symptoms(entry.get("symptom", []), here), tuple(entry.get("question", [])))
    if not found:
        raise Problem(f"{where}: no exercises")
    return found


def labs(root):
    """The stages that have a lab, by folder."""
    return [stage for stage in stages(root) if (root / FOLDER / f"{stage[:2]}.toml").is_file()]


def load(root, stage):
    """The exercises of a stage, by number, with the symptoms that all have."""
    path = root / FOLDER / f"{stage[:2]}.toml"
    return parse(path.read_text(), path.relative_to(root))


def common_symptoms(root):
    path = root / FOLDER / "common.toml"
    return _symptoms(tomllib.loads(path.read_text())["symptom"], path.relative_to(root))


def stage_called(root, name):
    """The folder of a stage that a person calls 4, 04, ring_allreduce or 04_ring_allreduce."""
    for stage in labs(root):
        if name.rstrip("/") in (stage, stage[3:], stage[:2], str(int(stage[:2]))):
            return stage
    raise Problem(f"no lab for '{name}'; there is: {', '.join(s[:2] for s in labs(root))}")


def exercise_called(root, number):
    """(stage, exercise) of a number as 4.2."""
    if not re.fullmatch(r"\d+\.\d+", number):
        raise Problem(f"'{number}' is no exercise; they are called 4.2")
    stage = stage_called(root, number.split(".")[0])
    exercises = load(root, stage)
    if number not in exercises:
        raise Problem(f"no exercise {number}; there is: {', '.join(exercises)}")
    return stage, exercises[number]
