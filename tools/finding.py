"""A line of ./course doctor's report, and how to ask programs of this machine for it."""

import os
import re
import subprocess

OK, MISSING, NOTE = "ok", "missing", "note"
SIGNS = {OK: ("✓", "ok"), MISSING: ("✗", "XX"), NOTE: ("○", "--")}


class Finding:
    """One line of the report."""

    def __init__(self, state, subject, text, remedy=""):
        self.state, self.subject, self.text, self.remedy = state, subject, text, remedy


def output_of(command, limit=30, **environment):
    """What a command prints on stdout, or None where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=limit, stdin=subprocess.DEVNULL,
                              env={**os.environ, "LC_ALL": "C", **environment})
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def version_in(text, pattern=r"(\d+(?:\.\d+)+)"):
    """The first version number in a text as a tuple, or None."""
    match = re.search(pattern, text or "")
    return tuple(int(part) for part in match[1].split(".")) if match else None


def dotted(version):
    return ".".join(map(str, version))


def install(*packages):
    return f"apt-get install {' '.join(packages)} (./course setup does it)"


def lines_of(finding, unicode):
    """The finding as it is printed: a line, and a second one with the remedy."""
    sign = SIGNS[finding.state][0 if unicode else 1]
    lines = [f"{sign} {finding.subject + ':':15} {finding.text}"]
    if finding.remedy:
        lines.append(" " * (len(sign) + 17) + ("→ " if unicode else "-> ") + finding.remedy)
    return lines
