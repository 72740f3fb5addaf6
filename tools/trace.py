#!/usr/bin/env python3
"""Shows a trace that --trace wrote: one step as a timeline, then where the time of all went.

The tables leave out the first step, which warms up. A share is of the time from the first
operation of these steps to the last one's end, so that the compute stream's shares and its idle
time add up to 100 %. What the machine can do comes from the file that `./course bench machine`
writes; `limit` is the time that its best rates would need, of the time that was taken, for those
operations whose bytes or floating-point operations are known.
"""

import argparse
import json
import re
import shutil
import sys

from communication import communication_table
from trace_file import (TraceError, busy_time, compute_row, number, ranks_of, read_trace, steps_of,
                        window_of)

MACHINE = "runs/machine.json"
FEW_RANKS = 4  # so many are drawn if nobody asks for one
LETTERS = {"product": "M", "kernel": "K", "copy": "C", "clear": "Z", "collective": "A"}
MEANINGS = {"M": "matrix product", "K": "kernel", "C": "copy", "Z": "set to zero",
            "A": "all-reduce", "?": "something else", ".": "idle"}


def read_machine(path, trace):
    """(what the machine can do, or {}; a line about it)."""
    how = f"./course bench machine\nmeasures it and writes {MACHINE}"
    try:
        with open(path, encoding="utf-8") as file:
            machine = json.load(file)
        for name in ("copy_device_bytes", "copy_host_bytes", "kernel_bytes", "fp32_flops",
                     "fp64_flops"):
            if not number(machine[name], name) > 0:
                raise TraceError(f"{name} is not positive")
    except FileNotFoundError:
        return {}, f"what this machine can do is not known; {how}"
    except (OSError, ValueError, KeyError, TypeError, TraceError) as error:
        return {}, f"{path} is not usable ({error});\n{how}"
    if machine.get("device") != trace.about.get("device"):
        return {}, f"{path} is of another device, {machine.get('device')};\n{how}"
    return machine, (
        "this machine at its best: copies from the host {:.1f} GB/s, on the device {:.1f},\n"
        "kernels {:.1f} GB/s, products {:.0f} GFLOP/s in fp32 and {:.0f} in fp64".format(
            *(machine[name] / 1e9 for name in ("copy_host_bytes", "copy_device_bytes",
                                               "kernel_bytes", "fp32_flops", "fp64_flops"))))


# --- the timeline ---------------------------------------------------------------------------------


def bar(operations, begin, end, columns, letter_of):
    """A letter a column, of what ran longest in it; small where that is less than half of it."""
    width = (end - begin) / columns or 1.0
    shares = [{} for _ in range(columns)]
    for operation in operations:
        first = max(0, int((operation.start - begin) / width))
        last = min(columns - 1, int((operation.end - begin) / width))
        for column in range(first, last + 1):
            left, right = begin + column * width, begin + (column + 1) * width
            inside = min(operation.end, right) - max(operation.start, left)
            if inside > 0:
                letter = letter_of(operation)
                shares[column][letter] = shares[column].get(letter, 0) + inside
    text = ""
    for share in shares:
        letter = max(share, key=share.get, default=".")
        text += letter if sum(share.values()) >= width / 2 else letter.lower()
    return text


def phase_letters(operations):
    """A small letter a phase, the first of its name that is free."""
    letters = {}
    for phase in dict.fromkeys(o.range.split("/")[0] or "other" for o in operations):
        free = (c for c in phase.lower() + "abcdefghijklmnopqrstuvwxyz"
                if c.isalpha() and c not in letters.values())
        letters[phase] = next(free, "*")
    return letters


def fold(words, columns, indent="  "):
    """The words in lines of at most `columns`."""
    lines = [indent]
    for word in words:
        if len(lines[-1]) + len(word) > columns and lines[-1].strip():
            lines.append(indent)
        lines[-1] += word + "   "
    return "\n".join(line.rstrip() for line in lines)


def timeline(trace, ranks, step, columns):
    """One step as text, a row a stream of these ranks, and below each compute stream its phases."""
    compute = {compute_row(trace, rank) for rank in ranks}
    windows = [window_of(trace, row, step) for row in compute if step in steps_of(trace, row)]
    begin, end = min(b for b, _ in windows), max(e for _, e in windows)
    inside = [o for o in trace.operations if o.start < end and o.end > begin]
    rows = sorted((row for row in trace.rows if row[0] in ranks), key=lambda row: (
        row[0], trace.rows[row] != "communication", row not in compute, row[1]))
    several = len({rank for rank, _ in trace.rows}) > 1
    names = {row: (f"rank {row[0]} " if several else "") + trace.rows[row] for row in rows}
    left = max(len(name) for name in [*names.values(), "phase"]) + 4
    width = max(10, columns - left)
    phases = phase_letters([o for o in inside if o.row in compute])

    def line(name, operations, letter_of):
        return f"  {name:{left - 4}}  " + bar(operations, begin, end, width, letter_of)

    lines = [f"step {step}: {(end - begin) / 1e3:.3f} ms, a column is"
             f" {(end - begin) / width / 1e3:.4f} ms"]
    for row in rows:
        of_row = [o for o in inside if o.row == row]
        lines.append(line(names[row], of_row, lambda o: LETTERS.get(o.kind, "?")))
        if row in compute:
            lines.append(line("phase", of_row, lambda o: phases[o.range.split("/")[0] or "other"]))
    shown = {c for text in lines[1:] if not text.startswith("  phase") for c in text[left:]}
    kinds = [f"{c} {m}" for c, m in MEANINGS.items() if c in shown or c.lower() in shown]
    lines.append(fold([*kinds, "small: less than half of the column"], columns))
    lines.append(fold(["phase:", *(f"{c} {p}" for p, c in phases.items())], columns))
    return "\n".join(lines)


# --- the tables -----------------------------------------------------------------------------------


def moved(operation):
    """Bytes that go through the device's memory: a copy within it reads and writes."""
    return operation.bytes * (2 if operation.name == "copy device to device" else 1)


def least_time(operation, machine):
    """Microseconds at the machine's best rates, or None where that cannot be known."""
    if not machine or operation.bytes + operation.flops == 0:
        return None
    if operation.kind == "copy":
        on_device = operation.name == "copy device to device"
        rate = machine["copy_device_bytes" if on_device else "copy_host_bytes"]
    else:
        rate = machine["kernel_bytes"]
    peak = machine["fp64_flops" if "Dgemm" in operation.name else "fp32_flops"]
    return 1e6 * max(moved(operation) / rate, operation.flops / peak)


def beyond(groups, machine):
    """A line about groups that were faster than the machine's best."""
    for _, operations in groups:
        least = [(t, o.time) for o in operations if (t := least_time(o, machine)) is not None]
        if sum(t for t, _ in least) > 1.05 * sum(time for _, time in least):
            return ("\n\na limit above 100 %: in a cache, or the machine was busier when it was"
                    " measured")
    return ""


def short(name, width):
    """The name without the scalar in angle brackets, cut in the middle if it is still too long."""
    name = re.sub(r"<(float|double)>|\b(float|double), ", "", name)
    return name if len(name) <= width else name[: width - 12] + ".." + name[-10:]


def groups_of(operations, key):
    groups = {}
    for operation in operations:
        groups.setdefault(key(operation), []).append(operation)
    return groups


def table(title, groups, wall, idle, machine, columns):
    """Rows of (label, operations): count, time, share of `wall`, rates, and the limit's share."""
    width = max(20, columns - 46)
    lines = [f"{title:{width}} {'count':>6} {'ms':>8} {'share':>6} {'GB/s':>6} {'GFLOP/s':>8}"
             + (f" {'limit':>5}" if machine else "")]
    for label, operations in groups:
        time = sum(o.time for o in operations)
        rates = [sum(f(o) for o in operations) / time / 1e3 if time > 0 else 0
                 for f in (moved, lambda o: o.flops)]
        least = [(t, o.time) for o in operations if (t := least_time(o, machine)) is not None]
        known = sum(taken for _, taken in least)
        limit = f"{100 * sum(t for t, _ in least) / known:.0f} %" if known > 0 else "-"
        lines.append(
            f"{short(label, width):{width}} {len(operations):6} {time / 1e3:8.2f}"
            f" {100 * time / wall:4.1f} % {rates[0] or '-':{'6.2f' if rates[0] else '>6'}}"
            f" {rates[1] or '-':{'8.1f' if rates[1] else '>8'}}"
            + (f" {limit:>5}" if machine else ""))
    lines.append(f"{'idle':{width}} {'':6} {idle / 1e3:8.2f} {100 * idle / wall:4.1f} %")
    return "\n".join(lines)


def report(trace, ranks, step, machine, about_machine, columns):
    """All that is printed, as text: the timeline of these ranks, tables of the first one."""
    rank = ranks[0]
    row = compute_row(trace, rank)
    steps = steps_of(trace, row)
    if step is None:
        step = steps[len(steps) // 2]
    if step not in steps:
        raise LookupError(f"no step {step}; the trace has steps {steps[0]} to {steps[-1]}")
    counted = set(steps[1:] or steps)
    operations = [o for o in trace.operations if o.row[0] == rank and o.step in counted]
    own = [o for o in operations if o.row == row]
    wall = (max(o.end for o in own) - own[0].start) or 1.0
    idle = wall - busy_time(own)

    def label(operation, text):
        return text if operation.row == row else f"{trace.rows[operation.row]}: {text}"

    by_name = groups_of(operations, lambda o: label(o, o.name))
    by_range = groups_of(own, lambda o: o.range or "other")
    about = trace.about
    head = [f"{about.get('stage')} on {about.get('device')}, steps {steps[0]} to {steps[-1]}"]
    if about.get("simulated"):
        head.append("simulated: these times are those of the CPU, not of a GPU")
    if about.get("omitted"):
        head.append(f"the trace was full: {about['omitted']} operations came after it")
    which = f"steps {min(counted)} to {max(counted)}"
    all_ranks = ranks_of(trace)
    if len(all_ranks) > 1:
        which = f"rank {rank}, {which}"
        head.append(f"ranks {all_ranks[0]} to {all_ranks[-1]}; --rank N shows one alone")
    communication = communication_table(trace, columns)
    return "\n".join([
        *head, "", timeline(trace, ranks, step, columns), "",
        *([communication, ""] if communication else []), about_machine, "",
        table(f"by kernel, {which}", sorted(by_name.items(), key=lambda g: (
            g[1][0].row != row, -sum(o.time for o in g[1]))), wall, idle, machine, columns), "",
        table(f"by phase and layer, {which}", by_range.items(), wall, idle, machine, columns), "",
        f"the compute stream was idle {100 * idle / wall:.1f} % of the time"
        + beyond([*by_name.items(), *by_range.items()], machine)])


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="./course trace", description=__doc__.split("\n")[0])
    parser.add_argument("file", help="what a program's --trace wrote")
    parser.add_argument("--step", type=int, help="to draw (one in the middle)")
    parser.add_argument("--rank", type=int, help="to draw (all if they are few) and"
                        " whose tables to print (the first)")
    parser.add_argument("--machine", default=MACHINE, metavar="FILE",
                        help=f"what the machine can do ({MACHINE})")
    parser.add_argument("--columns", type=int, help="width of the text (the terminal's)")
    chosen = parser.parse_args(arguments)
    columns = max(60, chosen.columns or shutil.get_terminal_size().columns)
    try:
        trace = read_trace(chosen.file)
        ranks = ranks_of(trace)
        if chosen.rank is None:
            shown = ranks if len(ranks) <= FEW_RANKS else ranks[:1]
        elif chosen.rank in ranks:
            shown = [chosen.rank]
        else:
            raise LookupError(f"no rank {chosen.rank}; the trace has {', '.join(map(str, ranks))}")
        machine, about_machine = read_machine(chosen.machine, trace)
        print(report(trace, shown, chosen.step, machine, about_machine, columns))
    except TraceError as error:
        print(f"trace: {chosen.file}: {error}", file=sys.stderr)
        return 3
    except LookupError as error:
        print(f"trace: {chosen.file}: {error.args[0]}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
