"""A grade for machines and for people: Gradescope's results.json, JUnit's XML, a table.

What is blocked has no score in either: results.json has no `score` and no `max_score` for it, JUnit has it as skipped.
"""

import json
import re
from xml.etree import ElementTree

from grade.grading import HIDDEN
from lab import report

MOST_OUTPUT = 8000  # characters of one entry
VISIBILITY = ("visible", "hidden", "after_due_date", "after_published")


def number(points):
    return int(points) if points == int(points) else round(points, 2)


def text_of(entry):
    """What is said about an entry, without what a terminal or XML could not take."""
    text = "\n".join(report.lines(entry.result)).split("\n", 1)
    head = f"{entry.name}: {entry.result.verdict.upper()}"
    if entry.result.verdict == "blocked":
        head += ". It could not be graded here, which is neither a pass nor zero; someone has to look."
    whole = "\n".join([head, *text[1:]])
    whole = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", whole)
    whole = re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", whole)
    return whole if len(whole) <= MOST_OUTPUT else whole[:MOST_OUTPUT] + "\n... and more"


def seconds_of(entry):
    return sum(run.seconds for run in entry.result.runs)


def summary(entries):
    count = {v: sum(e.result.verdict == v for e in entries) for v in ("pass", "fail", "blocked")}
    graded = [e.result for e in entries if e.result.verdict != "blocked"]
    text = (f"{number(sum(r.won for r in graded))} of {number(sum(r.points for r in graded))} points: "
            f"{count['pass']} passed, {count['fail']} failed")
    if count["blocked"]:
        lost = number(sum(e.result.points for e in entries) - sum(r.points for r in graded))
        text += f"; {count['blocked']} BLOCKED, worth {lost} more points, not graded"
    return text


def gradescope(entries, seconds, hidden_visibility="after_due_date", notes=()):
    """The contents of results.json."""
    tests = []
    for entry in entries:
        result = entry.result
        test = {"name": entry.name, "number": entry.number, "output": text_of(entry), "output_format": "text",
                "visibility": hidden_visibility if entry.part == HIDDEN else "visible",
                "extra_data": {"verdict": result.verdict, "part": entry.part}}
        if result.verdict != "blocked":
            test |= {"score": number(result.won), "max_score": number(result.points),
                     "status": "passed" if result.verdict == "pass" else "failed"}
        tests.append(test)
    shown = [e for e in entries if hidden_visibility == "visible" or e.part != HIDDEN]
    blocked = sorted({e.number for e in entries if e.result.verdict == "blocked"})
    output = ["What you can see now: " + summary(shown), *notes]
    if blocked:
        output.append(f"Not graded, neither a pass nor zero: {', '.join(blocked)}.")
    return {"execution_time": round(seconds), "visibility": "visible", "stdout_visibility": "hidden",
            "output": "\n".join(output), "tests": tests}


def junit(entries, seconds):
    """The text of JUnit's XML: a suite for each exercise."""
    root = ElementTree.Element("testsuites", name="course grade", time=f"{seconds:.1f}")
    suites = {}
    for entry in entries:
        suites.setdefault(entry.number, []).append(entry)
    for exercise, parts in suites.items():
        suite = ElementTree.SubElement(
            root, "testsuite", name=exercise, tests=str(len(parts)),
            failures=str(sum(e.result.verdict == "fail" for e in parts)),
            skipped=str(sum(e.result.verdict == "blocked" for e in parts)), errors="0",
            time=f"{sum(map(seconds_of, parts)):.1f}")
        for entry in parts:
            case = ElementTree.SubElement(suite, "testcase", name=entry.name, classname=f"exercise.{exercise}",
                                          time=f"{seconds_of(entry):.1f}")
            text = text_of(entry)
            if entry.result.verdict == "fail":
                message = entry.result.reason or (entry.result.meanings or ("a test failed",))[0]
                ElementTree.SubElement(case, "failure", message=" ".join(text_safe(message).split())).text = text
            elif entry.result.verdict == "blocked":
                ElementTree.SubElement(case, "skipped", message="blocked: " + " ".join(
                    text_safe(entry.result.reason).split())[:300])
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def text_safe(text):
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd]", "?", text)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def as_json(value):
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
