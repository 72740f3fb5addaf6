"""Reads what failed where from the output of a program of tests, and who waits for whom."""

import re
from dataclasses import dataclass

_RANK = re.compile(r"rank (\d+): ?")
_FAILED = re.compile(r"(\S+\.\w+):(\d+): FAILED:")
_RULE = re.compile(r"[-.=]{60,}")
# What Catch2 says where a test is left because a check in a function that it calls has failed.
_ENDED = "Exception translation was disabled"
_WAIT = re.compile(r"\d waits for \d|waiting for [\d.]+ s|missing: rank|is not done after|in no call|"
                   r"still locked|has not ended in|has enqueued \d")


@dataclass(frozen=True)
class Failure:
    test: str  # its name
    where: str  # file:line
    check: str  # as it stands in the test, "" where there was none
    values: str  # the same with the values, or what was thrown
    notes: str  # what the test says about it
    ranks: tuple  # on which it failed, alike; () for a program of one process


def _by_rank(output):
    """[(rank or None, its lines)]: the prefix of several ranks is taken off."""
    found = {}
    for line in output.split("\n"):
        match = _RANK.match(line)
        found.setdefault(int(match[1]) if match else None, []).append(
            line[match.end():] if match else line)
    return sorted(found.items(), key=lambda item: -1 if item[0] is None else item[0])


def joined(lines):
    return " ".join(" ".join(lines).split())


def flat(output):
    """The output as one line, without prefixes of ranks, so that what was wrapped can be found."""
    return joined(_RANK.sub("", line, count=1) for line in output.split("\n"))


def _blocks(lines):
    """(name of the test, file:line, its lines) of each failed check."""
    name, i = "", 0
    while i < len(lines):
        if re.fullmatch("-{60,}", lines[i]):
            end = next((j for j in range(i + 1, len(lines)) if _RULE.fullmatch(lines[j])), len(lines))
            name = joined(lines[i + 1 : end])
            i = end + 1
        elif match := _FAILED.match(lines[i]):
            end = next((j for j in range(i + 1, len(lines))
                        if _FAILED.match(lines[j]) or _RULE.fullmatch(lines[j])), len(lines))
            yield name, f"{match[1]}:{match[2]}", lines[i + 1 : end]
            i = end
        else:
            i += 1


def _parts(lines):
    """(check, values, notes) of a block."""
    parts = {"check": [], "values": [], "notes": []}
    now = "check"
    for line in lines:
        if re.match(r"with expansion:|due to ", line):
            now = "values"
            if line.startswith("due to a fatal"):
                parts["values"].append(line.removeprefix("due to "))
        elif re.match(r"with messages?:", line):
            now = "notes"
        elif not line.strip() and parts[now]:
            if now != "check":
                break
        else:
            parts[now].append(line)
    if parts["check"] and parts["check"][0].strip().startswith("{Unknown expression"):
        parts["check"] = []  # it was thrown somewhere
    return tuple(joined(parts[part]) for part in ("check", "values", "notes"))


def failures(output):
    """The failed checks in order, those that are alike on several ranks as one."""
    found = {}
    for rank, lines in _by_rank(output):
        for name, where, block in _blocks(lines):
            key = (name, where, *_parts(block))
            found.setdefault(key, []).append(rank)
    return [Failure(*key, tuple(sorted({r for r in ranks if r is not None})))
            for key, ranks in found.items() if _ENDED not in key[3]]


def waits(output):
    """The lines that say who waits for whom, or what is missing."""
    lines = [line.strip() for line in output.split("\n") if _WAIT.search(line)]
    return list(dict.fromkeys(lines))


def errors(output):
    """The lines in which a program says why it ended."""
    return list(dict.fromkeys(line.strip() for line in output.split("\n")
                              if re.match(r"(rank \d+: )?(error: |exercise \d)|launch: .*ended", line)))
