"""How much of a run's communication its computing hides, from a trace.

A collective is hidden where the compute stream of the same rank is busy meanwhile, and exposed
where it is not. Its time begins when its rank has come to it: it contains the wait for the slowest.
"""

from typing import NamedTuple

from intervals import common_of, length_of, rest_of, union_of
from trace_file import compute_row, ranks_of, steps_of

WARM_UP = 2  # steps: the first does not overlap, the second is the first that does


class Communication(NamedTuple):
    """Of one rank, or the mean of several, in one step on average."""
    collectives: float
    hidden: float  # microseconds
    exposed: float
    bytes: float  # of the buffers that were all-reduced

    @property
    def time(self):
        return self.hidden + self.exposed

    @property
    def share_hidden(self):
        return self.hidden / self.time if self.time > 0 else 0


def counted_steps(trace, rank):
    steps = steps_of(trace, compute_row(trace, rank))
    return steps[WARM_UP:] or steps


def step_window(trace, step):
    """(begin, end) of a step, over all ranks, of what belongs to it in the compute streams."""
    return step_windows(trace)[step]


def step_windows(trace):
    """{step: (begin, end)} of all steps, as step_window has them."""
    computing = {compute_row(trace, rank) for rank in ranks_of(trace)}
    windows = {}
    for o in trace.operations:
        if o.row in computing:
            begin, end = windows.get(o.step, (o.start, o.end))
            windows[o.step] = min(begin, o.start), max(end, o.end)
    return windows


def quickest_step(trace):
    """The one that was disturbed least by what else the machine did."""
    windows = step_windows(trace)
    return min(counted_steps(trace, ranks_of(trace)[0]),
               key=lambda step: windows[step][1] - windows[step][0])


def communication_of(trace, rank, steps=()):
    """The mean over these steps, or the counted ones; None where they have no collectives."""
    steps = set(steps or counted_steps(trace, rank))
    compute = compute_row(trace, rank)
    own = [o for o in trace.operations
           if o.row[0] == rank and o.kind == "collective" and o.step in steps]
    if not own:
        return None
    busy = union_of((o.start, o.end) for o in trace.operations if o.row == compute)
    communicating = union_of((o.start, o.end) for o in own)
    hidden = length_of(common_of(communicating, busy))
    exposed = length_of(rest_of(communicating, busy))
    return Communication(*(value / len(steps) for value in (
        len(own), hidden, exposed, sum(o.bytes for o in own))))


def mean_of(communications):
    return Communication(*(sum(values) / len(values) for values in zip(*communications)))


def world_size(trace):
    size = trace.about.get("world_size")
    return size if isinstance(size, int) and size > 0 else len(ranks_of(trace))


def communication_table(trace, columns):
    """As text, a row a rank and one for all; empty where no rank has collectives."""
    by_rank = {rank: found for rank in ranks_of(trace)
               if (found := communication_of(trace, rank)) is not None}
    if not by_rank:
        return ""
    rows = [(f"rank {rank}", found) for rank, found in by_rank.items()]
    if len(rows) > 1:
        rows.append(("mean", mean_of(list(by_rank.values()))))
    size = world_size(trace)
    factor = 2 * (size - 1) / size  # of the bytes, what each rank has to send
    steps = counted_steps(trace, next(iter(by_rank)))
    width = max(8, min(24, columns - 65))
    lines = [f"all-reduces of a step, mean of steps {steps[0]} to {steps[-1]}",
             f"{'':{width}} {'count':>6} {'ms':>8} {'hidden':>8} {'exposed':>8} {'hidden':>7}"
             f" {'MB':>8} {'algbw':>6} {'busbw':>6}"]
    for name, found in rows:
        rate = found.bytes / found.time / 1e3 if found.time > 0 else 0
        lines.append(f"{name:{width}} {found.collectives:6.0f} {found.time / 1e3:8.2f}"
                     f" {found.hidden / 1e3:8.2f} {found.exposed / 1e3:8.2f}"
                     f" {100 * found.share_hidden:5.1f} % {found.bytes / 1e6:8.2f} {rate:6.2f}"
                     f" {factor * rate:6.2f}")
    return "\n".join([*lines, "hidden: while the compute stream of the same rank was busy;"
                      " GB/s: algbw, busbw"])
