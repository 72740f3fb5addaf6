#!/usr/bin/env python3
"""Checks that links go one way: simgpu <- common <- 01 <- 02 <- ... <- 07.

A file includes its own folder, earlier ones, and nothing later; tests of a stage may include what
the stage may. Includes of ours are written from the root, in quotes. common and the stages do not
know the simulator: they name none of its headers, and a stage has no preprocessor conditional at
all. What nvcc compiles includes no library that it cannot digest.
"""

import re
import sys

from sources import ROOT, source_files, stages, without_comments

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b")
NOT_FOR_NVCC = re.compile(r"(fmt|spdlog|CLI|nlohmann)/")
FREE = {"tests", "bench", "tools"}  # may include anything that is not a later stage


def includes_of(text):
    """Yields (line number, path, quoted) for each include."""
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        if match := INCLUDE.match(line):
            yield number, match[1] or match[2], match[1] is not None


def order_of(folders):
    """How far up the course each folder stands; a link may only go down."""
    return {name: level for level, name in enumerate(folders)}


def level_of(path, order):
    """The level of a file by its path from the root; None where any include is fine."""
    parts = path.split("/")
    if parts[0] == "tests":  # those of a stage know as much as the stage, the others no stage
        return max(order.get(parts[1], 0), order["common"])
    return order.get(parts[0])


def check_file(path, text, root, order):
    """Yields (line, message) for what is wrong in one file by itself."""
    folder = path.split("/")[0]
    level = level_of(path, order)
    for number, target, quoted in includes_of(text):
        first = target.split("/")[0]
        ours = first in order or first in FREE
        if ours and not quoted:
            yield number, f"<{target}> is a file of ours: write it in quotes"
        if quoted and folder != "simgpu" and not (ours and (root / target).is_file()):
            yield number, f'"{target}" is no path from the root of the project'
        if first == "simgpu" and folder not in ("simgpu", *FREE):
            yield number, f'"{target}": only the real API here, the build chooses the simulator'
        elif level is not None and order.get(first, 0) > level:
            yield number, f'"{target}": {folder} must not include what comes later'
        elif first in FREE and folder not in FREE:
            yield number, f'"{target}": {folder} must not include {first}'
    if folder in order and order[folder] > order["common"]:
        for number, line in enumerate(without_comments(text).split("\n"), 1):
            if match := CONDITIONAL.match(line):
                yield number, f"#{match[1]}: a stage has no preprocessor conditionals"


def check_nvcc(files):
    """Yields (path, line, message) where a .cu or .cuh file reaches a library that breaks nvcc."""

    def reach(path, seen):
        """The chain of files from `path` to a forbidden include, or None."""
        for _, target, quoted in includes_of(files[path]):
            if NOT_FOR_NVCC.match(target):
                return [path, target]
            if quoted and target in files and target not in seen:
                seen.add(target)
                if chain := reach(target, seen):
                    return [path, *chain]
        return None

    for path in files:
        if path.endswith((".cu", ".cuh")) and (chain := reach(path, {path})):
            yield path, 1, "nvcc must not see " + " <- ".join(reversed(chain))


def check_cmake(root, order):
    """Yields (path, line, message) where a CMake file of a folder names a later folder."""
    for folder, level in order.items():
        for cmake in sorted((root / folder).rglob("CMakeLists.txt")):
            for number, line in enumerate(cmake.read_text().split("\n"), 1):
                for later in (name for name, height in order.items() if height > level):
                    # A target is called as its folder, with or without the number of the stage;
                    # common has more than one.
                    target = rf"\b({later}|{later[3:]})\b" if later[0].isdigit() else rf"\b{later}"
                    if re.search(target, line.split("#")[0]):
                        path = str(cmake.relative_to(root))
                        yield path, number, f"{later}: {folder} must not use what comes later"


def check(root):
    """All findings below `root`, as sorted (path, line, message)."""
    order = order_of(["simgpu", "common", *stages(root)])
    files = {str(p.relative_to(root)): p.read_text() for p in source_files(root)}
    findings = [
        (path, *finding)
        for path, text in files.items()
        for finding in check_file(path, text, root, order)
    ]
    return len(files), sorted([*findings, *check_nvcc(files), *check_cmake(root, order)])


def main():
    count, findings = check(ROOT)
    for path, line, message in findings:
        print(f"{path}:{line}: {message}", file=sys.stderr)
    print(f"includes: {count} files, {len(findings)} wrong")
    return 1 if findings or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
