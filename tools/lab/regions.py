"""The marked regions of a source: what a student writes.

    // [exercise 4.2] One line that says what to do.
    ...solution...
    // [/exercise]

A source is cut into plain lines and regions. The marker lines stay where they are in a student's
file too, so that the same functions read both. A region's key is its exercise's number; a second
region of the same exercise in one file has `#2` behind it, and so on.
"""

import difflib
import re
import textwrap
from dataclasses import dataclass

from mutant_list import Problem

_OPEN = re.compile(r"( *)// \[exercise (\d+\.\d+)\] (.+)")
_CLOSE = re.compile(r" *// \[/exercise\]")
_INCLUDE = re.compile(r"#include\b")
WIDTH = 100  # columns of a source


@dataclass(frozen=True)
class Region:
    key: str
    marker: str  # the whole opening line
    body: tuple  # the lines between the markers
    closing: str
    line: int  # number of the opening line, from 1

    @property
    def number(self):
        return self.key.split("#")[0]

    @property
    def indent(self):
        return len(self.marker) - len(self.marker.lstrip())

    @property
    def task(self):
        """The text of the marker."""
        return _OPEN.fullmatch(self.marker)[3]


def parse(text, where="the file"):
    """The pieces of a source in order: lines as str, regions as Region."""
    pieces, opened, seen = [], None, {}
    for number, line in enumerate(text.split("\n"), 1):
        if match := _OPEN.fullmatch(line):
            if opened:
                raise Problem(f"{where}:{number}: exercise {match[2]} begins inside another one")
            count = seen[match[2]] = seen.get(match[2], 0) + 1
            opened = (match[2] + (f"#{count}" if count > 1 else ""), line, number, [])
        elif _CLOSE.fullmatch(line):
            if not opened:
                raise Problem(f"{where}:{number}: [/exercise] without a beginning")
            key, marker, begin, body = opened
            pieces.append(Region(key, marker, tuple(body), line, begin))
            opened = None
        elif opened:
            opened[3].append(line)
        else:
            pieces.append(line)
    if opened:
        raise Problem(f"{where}:{opened[2]}: exercise {opened[0]} has no [/exercise]")
    return pieces


def regions(text, where="the file"):
    """{key: Region} of a source."""
    return {p.key: p for p in parse(text, where) if isinstance(p, Region)}


def with_bodies(text, bodies, where="the file"):
    """The source with other lines in the regions that `bodies` ({key: lines}) names."""
    lines = []
    for piece in parse(text, where):
        if isinstance(piece, Region):
            lines += [piece.marker, *bodies.get(piece.key, piece.body), piece.closing]
        else:
            lines.append(piece)
    return "\n".join(lines)


# --- stubs ----------------------------------------------------------------------------------------


def stub(region, task, kernel=False):
    """The lines that a student finds in a region: the task, and a call that names the exercise."""
    indent = " " * region.indent
    comment = textwrap.wrap(" ".join(task.split()), WIDTH - region.indent - 3,
                            break_on_hyphens=False)
    call = f'{"cuda::" if kernel else ""}not_implemented("{region.number}");'
    return (*(f"{indent}// {line}" for line in comment), indent + call)


def is_stub(body):
    """Whether the lines still call not_implemented."""
    return any(re.match(r"\s*(cuda::)?not_implemented\(", line) for line in body)


def with_includes(text, headers):
    """The source with includes of ours added behind its last one."""
    lines = text.split("\n")
    missing = [f'#include "{h}"' for h in headers if f'#include "{h}"' not in lines]
    last = max((i for i, line in enumerate(lines) if _INCLUDE.match(line)), default=-1)
    if last < 0:  # behind #pragma once, if there is one
        last = next((i for i, line in enumerate(lines) if line == "#pragma once"), -1)
    return "\n".join(lines[: last + 1] + missing + lines[last + 1 :])


# --- merging --------------------------------------------------------------------------------------


def _skeleton(text, where):
    """The lines outside the regions, with a token in place of each region."""
    return [f"\0{p.key}" if isinstance(p, Region) else p for p in parse(text, where)]


def _changes(base, other):
    """[(begin, end, lines)]: what `other` has in place of base[begin:end]."""
    matcher = difflib.SequenceMatcher(None, base, other, autojunk=False)
    return [(i1, i2, other[j1:j2]) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]


def merge(base, mine, new, where="the file"):
    """`new` with my regions, and with what I changed outside of them since `base`.

    Raises Problem where both changed the same lines outside.
    """
    old, my_regions = _skeleton(base, where), regions(mine, where)
    changes = _changes(old, _skeleton(mine, where))
    for change in _changes(old, _skeleton(new, where)):
        if change in changes:
            continue
        for begin, end, _ in changes:
            if begin <= change[1] and change[0] <= end:
                first = next((line for line in old[begin:end] if line.strip()), "")
                raise Problem(f"{where}: you and the course changed the same place: {first.strip()}")
        changes.append(change)
    lines = list(old)
    for begin, end, replacement in sorted(changes, key=lambda c: c[:2], reverse=True):
        lines[begin:end] = replacement
    new_regions, merged = regions(new, where), []
    for line in lines:
        if not line.startswith("\0"):
            merged.append(line)
        elif region := new_regions.get(line[1:]):
            body = my_regions[region.key].body if region.key in my_regions else region.body
            merged += [region.marker, *body, region.closing]
    return "\n".join(merged)


# --- what is compiled -----------------------------------------------------------------------------


def overlay(mine, reference, keep, path, where="the file"):
    """My file with the reference's solutions in all regions but those of the exercises `keep`, or
    with all of mine where that is None.

    `#line` makes the compiler speak of my lines at `path`. Where the reference has no solution
    either, mine stays.
    """
    solutions = regions(reference, where)
    lines = [f'#line 1 "{path}"']
    number = 1  # of the next line of mine
    for piece in parse(mine, where):
        if not isinstance(piece, Region):
            lines.append(piece)
            number += 1
            continue
        number += len(piece.body) + 2
        solution = solutions.get(piece.key)
        if keep is None or piece.number in keep or solution is None or is_stub(solution.body):
            lines += [piece.marker, *piece.body, piece.closing]
        else:
            lines += [piece.marker, *solution.body, f'#line {number - 1} "{path}"', piece.closing]
    return "\n".join(lines)
