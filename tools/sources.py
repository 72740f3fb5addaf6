"""Finds the project's C++ and CUDA files and reads them as a compiler would: without comments."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".hpp", ".h", ".cpp", ".cuh", ".cu"}
_STAGE = re.compile(r"(\d\d)_\w+")
# What must not be searched for comments comes first: raw strings, strings and characters.
_TOKENS = re.compile(
    r'(?P<raw>R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")'
    r'|(?P<keep>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\')'
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)",
    re.DOTALL,
)


def stages(root):
    """The stage folders by name, in the order of the course."""
    return sorted(p.name for p in root.iterdir() if p.is_dir() and _STAGE.fullmatch(p.name))


def source_files(root, folders=None):
    """All source files below the given folders (all of ours if None), sorted."""
    if folders is None:
        folders = ["simgpu", "common", *stages(root), "tests", "bench"]
    return sorted(
        path
        for folder in folders
        for path in (root / folder).rglob("*")
        if path.suffix in SUFFIXES and path.is_file()
    )


def without_comments(text):
    """The text with each comment blanked; line numbers stay as they are.

    What looks like a directive inside a raw string loses its #, since a compiler sees none there.
    """

    def blank(match):
        if match["raw"] is not None:
            return match["raw"].replace("#", "_")
        if match["keep"] is not None:
            return match["keep"]
        return " " + "\n" * match["comment"].count("\n")

    return _TOKENS.sub(blank, text)
