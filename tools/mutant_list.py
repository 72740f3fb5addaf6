"""The lists of planted mistakes, tests/mutants/STAGE.toml, and how one is planted.

Each entry [[mutant]] has

    name      what --only asks for
    mistake   one line for people
    exercise  its number, if it is a wrong answer to one (optional)
    file      from the root of the project
    find      text that stands there exactly once, and what to put in its place:
    replace     or `edits`, a list of [find, replace], where one place is not enough
    tests     the ctest tests that must fail
    targets   what to build for them (the same names, if left out)
    message   a regular expression that the output of the failing tests must match
    compiles  false if the compiler already refuses it; message is then looked for in its output
    needs_data  true if the tests notice it only with Fashion-MNIST installed
"""

import tomllib

LISTS = "tests/mutants"
KEYS = {"name", "mistake", "file", "tests", "message"}
OPTIONAL = {"exercise", "find", "replace", "edits", "targets", "compiles", "needs_data"}


class Problem(Exception):
    """The list or the project is not as it must be."""


def parse(text, where):
    """The mutants of a list, by name, with the optional keys filled in."""
    try:
        entries = tomllib.loads(text).get("mutant", [])
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"{where}: {error}") from error
    mutants = {}
    for entry in entries:
        name = entry.get("name", "?")
        if missing := KEYS - set(entry):
            raise Problem(f"{where}: {name} lacks {', '.join(sorted(missing))}")
        if unknown := set(entry) - KEYS - OPTIONAL:
            raise Problem(f"{where}: {name} has unknown {', '.join(sorted(unknown))}")
        if name in mutants:
            raise Problem(f"{where}: {name} is there twice")
        if ("edits" in entry) == ("find" in entry) or ("find" in entry) != ("replace" in entry):
            raise Problem(f"{where}: {name} needs find and replace, or edits")
        edits = entry.get("edits") or [[entry["find"], entry["replace"]]]
        if not entry["tests"] or any(len(edit) != 2 or edit[0] == edit[1] for edit in edits):
            raise Problem(f"{where}: {name} has no tests, or an edit that changes nothing")
        mutants[name] = {"compiles": True, "needs_data": False, "targets": entry["tests"],
                         **entry, "edits": edits}
    if not mutants:
        raise Problem(f"{where}: no mutants")
    return mutants


def list_of(root, stage):
    """Path of a stage's list, by the stage's number."""
    return root / LISTS / f"{stage}.toml"


def planted(text, mutant):
    """The text of the file with the mistake in it."""
    for find, replace in mutant["edits"]:
        if (count := text.count(find)) != 1:
            first = find.strip().split("\n")[0]
            raise Problem(f"{mutant['file']} has {count} times, not once: {first}")
        text = text.replace(find, replace)
    return text
