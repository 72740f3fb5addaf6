#!/usr/bin/env python3
"""Records what docs/player.html plays: runs of four simulated ranks.

    python3 tools/make_recordings.py build/sim/bin

leaves one JSON file a recording in docs/recordings, and all of them as docs/recordings.js, since a
page that is opened as a file may not read other files. `--page-only` only makes the latter.

ring, ring-slow      the ring of stage 04 step by step, as ring_steps writes it; slow: rank 2 sleeps
                     before each of its steps
streams-off, -on     a step of stage 05 without and with overlap, from its --trace: what the compute
                     and communication streams of each rank did, and when
streams-slow         with overlap, and on rank 2 every fourth operation up to 1 ms late
                     (SIMGPU_SCHEDULE)
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from communication import communication_of, counted_steps, mean_of, step_window
from sources import ROOT
from trace_file import TraceError, compute_row, ranks_of, read_trace

RANKS, SLOW = 4, 2
# Slow enough for the links to matter more than what else this machine does. GB/s, us.
RING_LINK, STREAMS_LINK = "0.05,2000", "0.15,100"
RING_DELAY = 20  # ms
STREAMS_OPTIONS = ("--data", "synthetic", "--layers", "784-256x6-10", "--bucket-mb", "0.25",
                   "--first-bucket-mb", "0.25", "--global-batch", "1024", "--steps", "100", "--quiet")
NAMES = ("ring", "ring-slow", "streams-off", "streams-on", "streams-slow")
FOLDER, PAGE_DATA = ROOT / "docs/recordings", ROOT / "docs/recordings.js"
TOGETHER = 50  # microseconds: a shorter pause within a layer is not to be seen
# Makes one rank's device slow; mpirun says which one a process is.
SLOW_RANK = ('if [ "$OMPI_COMM_WORLD_RANK" = {} ]; then export SIMGPU_SCHEDULE=delays:1; fi; '
             'exec "$@"').format(SLOW)


def run(link, *command):
    done = subprocess.run([sys.executable, ROOT / "tools/launch.py", "-n", str(RANKS), "--timeout",
                           "120", *command], env={**os.environ, "SIMGPU_LINK": link},
                          stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise OSError(f"{command} ended with {done.returncode}")


def rounded(value):
    """The same with times in whole microseconds: the clock is no better, and diffs are smaller."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 3) if isinstance(value, float) else value


def record_ring(programs, folder, slow):
    path = folder / "ring.json"
    options = ["--slow", f"{SLOW}:{RING_DELAY}"] if slow else []
    run(RING_LINK, programs / "ring_steps", "--json", path, *options)
    return {"kind": "ring", **rounded(json.loads(path.read_text(encoding="utf-8")))}


def phase_of(operation):
    if operation.kind == "collective":
        return "all-reduce"
    first = operation.range.split("/")[0]
    return first if first in ("forward", "backward") else "update"  # the loss, too, is a moment


def steadiest_step(trace):
    """The one in which the ranks are soonest through their backward passes, all together.

    What else the machine does holds up now one rank, now another, in almost every step.
    """
    computing = {compute_row(trace, rank) for rank in ranks_of(trace)}
    begins, ends = {}, {}
    for o in trace.operations:  # by their start
        if o.row in computing:
            begins.setdefault(o.step, o.start)
            if phase_of(o) == "backward":
                ends.setdefault(o.step, {})[o.row] = o.end
    return min(counted_steps(trace, ranks_of(trace)[0]),
               key=lambda step: sum(ends[step].values()) - len(computing) * begins[step])


def cut(trace):
    """One steady step: the operations of the compute and communication streams of all ranks."""
    step = steadiest_step(trace)
    begin, end = step_window(trace, step)
    own = [o for o in trace.operations if o.step == step]
    rows = []
    for rank in ranks_of(trace):
        last, computing = None, compute_row(trace, rank)
        for o in own:
            compute = o.row == computing
            if o.row[0] != rank or not (compute or o.kind == "collective"):
                continue
            row = {"rank": rank, "stream": "compute" if compute else "communication",
                   "phase": phase_of(o), "what": o.range.split("/")[-1],
                   "begin_ms": (o.start - begin) / 1e3, "end_ms": (o.end - begin) / 1e3}
            if compute and last and all(last[key] == row[key] for key in ("phase", "what")) and (
                    row["begin_ms"] - last["end_ms"] < TOGETHER / 1e3):
                last["end_ms"] = row["end_ms"]
                continue
            rows.append(row)
            last = row if compute else last
    mean = mean_of([communication_of(trace, rank, [step]) for rank in ranks_of(trace)])
    return rounded({"duration_ms": (end - begin) / 1e3, "all_reduce_ms": mean.time / 1e3,
                    "exposed_ms": mean.exposed / 1e3, "operations": rows})


def record_streams(programs, folder, overlap, slow):
    path = folder / "trace.json"
    wrapper = ["bash", "-c", SLOW_RANK, "slow"] if slow else []
    run(STREAMS_LINK, *wrapper, programs / "05_nccl_ddp", *STREAMS_OPTIONS, "--overlap", overlap,
        "--trace", path)
    return {"kind": "streams", "ranks": RANKS, "link": STREAMS_LINK, "overlap": overlap,
            **({"slow": {"rank": SLOW}} if slow else {}), **cut(read_trace(path))}


def record(programs, name, folder):
    kind, way = (name + "-").split("-")[:2]
    if kind == "ring":
        return record_ring(programs, folder, way == "slow")
    return record_streams(programs, folder, "off" if way == "off" else "on", way == "slow")


def text_of(recording):
    """JSON with a line for each step, rank or operation."""
    long = {key: value for key, value in recording.items() if key in ("steps", "operations")}
    short = json.dumps({key: recording[key] for key in recording if key not in long})[:-1]
    for key, rows in long.items():
        short += f',\n"{key}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
    return short + "}\n"


def page_data(folder):
    """What docs/recordings.js has to be."""
    parts = [f'"{name}": {(folder / f"{name}.json").read_text(encoding="utf-8").rstrip()}'
             for name in NAMES]
    return ("// Made by tools/make_recordings.py from docs/recordings/*.json.\n"
            "const RECORDINGS = {\n" + ",\n".join(parts) + "\n};\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, nargs="?", default=ROOT / "build/sim/bin",
                        help="folder with ring_steps and 05_nccl_ddp (build/sim/bin)")
    parser.add_argument("--only", choices=NAMES, help="make this one anew")
    parser.add_argument("--page-only", action="store_true", help="from the recordings there are")
    arguments = parser.parse_args()
    try:
        FOLDER.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            for name in () if arguments.page_only else NAMES:
                if arguments.only in (None, name):
                    recording = record(arguments.programs.resolve(), name, Path(folder))
                    (FOLDER / f"{name}.json").write_text(text_of(recording), encoding="utf-8")
                    print(f"recorded: docs/recordings/{name}.json", flush=True)
        PAGE_DATA.write_text(page_data(FOLDER), encoding="utf-8")
    except (OSError, ValueError, KeyError, TraceError) as error:
        print(f"make_recordings: {error}", file=sys.stderr)
        return 1
    print("the player: docs/player.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
