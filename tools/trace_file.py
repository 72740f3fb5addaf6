"""Reads the file that a program's --trace wrote: the operations of all ranks, by their start."""

import json
import math
from typing import NamedTuple

from intervals import length_of, union_of


class TraceError(Exception):
    """The file is no trace of ours, or not a whole one; the message says why."""


class Operation(NamedTuple):
    name: str
    kind: str
    row: tuple  # (rank, index of the stream)
    start: float  # microseconds
    end: float
    step: int
    range: str  # "forward/layers.0"
    bytes: float  # 0 where not known
    flops: float

    @property
    def time(self):
        return self.end - self.start


class Trace(NamedTuple):
    operations: list  # by start
    rows: dict  # (rank, index) -> name of the stream
    about: dict  # stage, device, simulated, omitted, ...


def number(value, what):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TraceError(f"{what} is {json.dumps(value)}, not a number")
    return value


def row_of(event):
    return number(event["pid"], "pid"), number(event["tid"], "tid")


def operation_of(event):
    args = event["args"]
    start, time = number(event["ts"], "ts"), number(event["dur"], "dur")
    return Operation(
        str(event["name"]), str(event["cat"]), row_of(event), start,
        start + max(0, time), int(number(args["step"], "step")), str(args["range"]),
        number(args.get("bytes", 0), "bytes"), number(args.get("flops", 0), "flops"))


def read_trace(path):
    """The operations of a trace file, or TraceError."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(getattr(error, "strerror", None) or "no text") from error
    if not text.strip():
        raise TraceError("empty: the run that should write it has not ended, or was killed")
    try:
        whole = json.loads(text)
        rows, operations = {}, []
        for event in whole["traceEvents"]:
            if event["ph"] == "M" and event["name"] == "thread_name":
                rows[row_of(event)] = str(event["args"]["name"])
            elif event["ph"] == "X":
                operations.append(operation_of(event))
        about = dict(whole["otherData"])
        operations.sort(key=lambda operation: operation.start)
        for operation in operations:
            rows.setdefault(operation.row, f"stream {operation.row[1]}")
    except json.JSONDecodeError as error:
        raise TraceError(f"cut off or damaged at line {error.lineno}: {error.msg}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"
        raise TraceError(f"JSON, but no trace of this course ({what})") from error
    if not operations:
        why = about.get("note", "was it a run of at least one step?")
        raise TraceError(f"no operations: {why}")
    return Trace(operations, rows, about)


def ranks_of(trace):
    return sorted({operation.row[0] for operation in trace.operations})


def omitted_of(trace, rank):
    """How many operations of a rank came after its trace was full."""
    try:
        return trace.about["omitted_by_rank"][rank]
    except (KeyError, TypeError, IndexError):
        return trace.about.get("omitted", 0)


def compute_row(trace, rank):
    """The stream called compute, or else the busiest one of the rank."""
    rows = sorted({o.row for o in trace.operations if o.row[0] == rank})
    busy = {row: sum(o.time for o in trace.operations if o.row == row) for row in rows}
    return max(rows, key=lambda row: (trace.rows[row] == "compute", busy[row]))


def steps_of(trace, row):
    """The steps of a stream; not the last one if the trace ended in the middle of it."""
    steps = sorted({o.step for o in trace.operations if o.row == row})
    return steps[:-1] if omitted_of(trace, row[0]) and len(steps) > 1 else steps


def window_of(trace, row, step):
    """(begin, end) of a step: to the start of the next one, or to its own last end."""
    own = [o for o in trace.operations if o.row == row and o.step == step]
    later = [o.start for o in trace.operations if o.row == row and o.step > step]
    return own[0].start, min(later) if later else max(o.end for o in own)


def busy_time(operations):
    """Time in which at least one runs."""
    return length_of(union_of((o.start, o.end) for o in operations))
