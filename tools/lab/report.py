"""Results in a student's words."""

import textwrap

MOST_FAILURES = 2
WIDTH = 100


def _wrapped(text, indent):
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent) or [indent]


def _ranks(ranks):
    if not ranks:
        return ""
    return f" on rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _shortened(text, limit=600):
    return text if len(text) <= limit else text[:limit] + " ..."


def failure_lines(failure):
    yield from _wrapped(f"failed{_ranks(failure.ranks)}: {failure.test}", "    ")
    if failure.check:
        yield from _wrapped(f"expected  {failure.check}", "      ")
        if failure.values:
            yield from _wrapped(f"found     {_shortened(failure.values)}", "      ")
    elif failure.values:
        yield from _wrapped(_shortened(failure.values), "      ")
    if failure.notes:
        yield from _wrapped(f"where     {_shortened(failure.notes)}", "      ")
    yield f"      in        {failure.where}"


def lines(result):
    """What a student reads about one result."""
    points = "" if result.verdict == "blocked" else f", {result.won} of {result.points} points"
    yield f"{result.number} {result.title}: {result.verdict.upper()}{points}"
    if result.reason:
        yield from _wrapped(result.reason, "  ")
    for proof in result.proofs:
        files = f"{proof.objects} object file{'s' * (proof.objects != 1)}"
        yield f"  compiled: your {proof.path} ({proof.checksum}), into {files}"
    for run in result.runs:
        late = ", time limit" if run.timed_out else ""
        yield f"  {run.verdict}: {run.words} ({run.seconds:.1f} s{late})"
    if result.output and not result.runs:
        yield from (f"    {line}" for line in result.output.rstrip().split("\n"))
    for failure in result.failures[:MOST_FAILURES]:
        yield from failure_lines(failure)
    if (more := len(result.failures) - MOST_FAILURES) > 0:
        yield f"    and {more} more; run it yourself to see them"
    for line in result.errors:
        if not any(line in other for other in result.waits):
            yield from _wrapped(line, "    ")
    if result.waits:
        yield "    who waits for whom:"
        yield from (f"      {line}" for line in result.waits)
    if result.runs and result.verdict == "fail" and not (result.failures or result.errors or
                                                         result.waits):
        yield from (f"    {line}" for line in result.output.rstrip().split("\n")[-12:])
    for meaning in result.meanings:
        yield from textwrap.wrap(f"usually means: {meaning}", WIDTH, initial_indent="  ",
                                 subsequent_indent="    ")


def summary(results):
    """One line over several results."""
    count = {v: sum(r.verdict == v for r in results) for v in ("pass", "fail", "blocked")}
    counted = [r for r in results if r.verdict != "blocked"]
    text = (f"{count['pass']} passed, {count['fail']} failed, {count['blocked']} blocked; "
            f"{sum(r.won for r in counted)} of {sum(r.points for r in counted)} points")
    if blocked := sum(r.points for r in results) - sum(r.points for r in counted):
        text += f", {blocked} more could not be checked here"
    return text


def table(rows):
    """Rows of texts in columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return "\n".join("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths)), row[-1]]).rstrip()
                     for row in rows)
