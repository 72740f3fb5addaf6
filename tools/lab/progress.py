"""progress.json in the student's tree: what was passed, hinted and given up."""

import json

from mutant_list import Problem

FILE = "progress.json"
EMPTY = {"verdict": None, "passed": False, "checks": 0, "hints": 0, "gave_up": False}


class Progress:
    def __init__(self, tree):
        self.tree = tree
        path = tree.folder / FILE
        try:
            self.entries = json.loads(path.read_text()) if path.is_file() else {}
        except ValueError as error:
            raise Problem(f"{tree.name(FILE)}: {error}; delete it to begin anew") from error

    def of(self, number):
        return {**EMPTY, **self.entries.get(number, {})}

    def note(self, number, **what):
        """Keeps what changed of an exercise."""
        self.entries[number] = {**self.of(number), **what}
        self.tree.write(FILE, json.dumps(self.entries, indent=1, sort_keys=True) + "\n")

    def checked(self, result):
        """A result; one that is blocked takes nothing back."""
        entry = self.of(result.number)
        passed = entry["passed"] or result.verdict == "pass"
        self.note(result.number, verdict=result.verdict, passed=passed, checks=entry["checks"] + 1)

    def next_hint(self, exercise):
        """(number of the hint from 1, its text); after the last one, that one again."""
        number = min(self.of(exercise.number)["hints"] + 1, len(exercise.hints))
        self.note(exercise.number, hints=number)
        return number, exercise.hints[number - 1]

    def may_see_solution(self, number):
        entry = self.of(number)
        return entry["passed"] or entry["gave_up"]
