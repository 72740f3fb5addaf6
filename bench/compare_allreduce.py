#!/usr/bin/env python3
"""Compares the all-reduces of the course with Open MPI's and Gloo's, and draws time against size.

Everything runs beside everything: the course's algorithms and Open MPI's take turns in one process,
Gloo's processes take turns with it, and medians of the rounds are compared. A second part runs over
a simulated network link (SIMGPU_LINK), where times must be those of the alpha-beta model. Status 1
if they are not, or if a sum was wrong.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
LAUNCH = HERE.parent / "tools" / "launch.py"

LIBRARY = ["mpi:2", "mpi:3", "mpi:4", "mpi:5:65536", "mpi:5:1048576", "mpi:6"]
TOLERANCE = 0.2
BUFFERS = os.environ.get("DDP_MPI_BUFFERS", "device")  # an MPI that knows no CUDA needs "host"


def fail(text):
    sys.exit(f"compare_allreduce: {text}")


def power_of_two(number):
    return number & (number - 1) == 0


def run_ours(program, ranks, algorithms, sizes, rounds, environment=None):
    """The rows that allreduce_perf wrote, as {(algorithm, bytes): its in-place measurement}."""
    begin, end, factor = sizes
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.json"
        done = subprocess.run(
            [sys.executable, LAUNCH, "-n", str(ranks), "--timeout", "900", program,
             "-b", str(begin), "-e", str(end), "-f", str(factor), "-n", str(rounds),
             "--mpi-buffers", BUFFERS, "--algorithm", ",".join(algorithms), "--json", table],
            env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            fail(f"{program} failed with code {done.returncode}\n{done.stdout}")
        result = json.loads(table.read_text(encoding="utf-8"))
    return {(row["algorithm"], row["bytes"]): row["in_place"] for row in result["rows"]}


def run_gloo(ranks, sizes, rounds):
    """{bytes: seconds of each round}; empty where torch is not installed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, HERE / "peers" / "gloo_allreduce.py", "--rounds", str(rounds),
               *map(str, sizes)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                         env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks),
                              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                              "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"})
        for rank in range(ranks)]
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    if any(process.returncode != 0 for process in processes):
        fail("Gloo's run failed")
    return dict(json.loads(outputs[0]))


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def every_size(begin, end, factor):
    while begin <= end:
        yield begin
        begin *= factor


def fit(points):
    """alpha (seconds) and beta (bytes a second) of seconds = alpha + bytes / beta.

    Least squares of the relative errors, so that small sizes count as much as large ones.
    """
    a = b = c = d = e = 0.0
    for size, seconds in points:
        weight = 1 / seconds**2
        a += weight
        b += weight * size
        c += weight * size * size
        d += weight * seconds
        e += weight * size * seconds
    determinant = a * c - b * b
    alpha = max((c * d - b * e) / determinant, 0.0)
    slope = (a * e - b * d) / determinant if alpha > 0 else e / c
    return alpha, 1 / slope


def crossover(naive, ring):
    """The size at which two lines (alpha, beta) meet; None where one is always below.

    For 2 ranks both have the same latency, so that what a fit leaves of a difference is noise.
    """
    extra_latency, saved = ring[0] - naive[0], 1 / naive[1] - 1 / ring[1]
    return extra_latency / saved if saved > 0 and extra_latency > 0.2 * naive[0] else None


def human(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            return f"{size:.4g} {unit}"
        size /= 1024


# --- beside the peers -----------------------------------------------------------------------------


def compare(program, ranks, sizes, rounds, passes):
    """Prints times and ratios for so many ranks."""
    own = ["naive", "ring", "ring-segmented"] + (["tree"] if power_of_two(ranks) else [])
    times = {}
    torch = has_torch()
    for turn in range(passes):
        print(f"{ranks} ranks, pass {turn + 1} of {passes}", file=sys.stderr)
        rows = run_ours(program, ranks, [*own, "mpi", *LIBRARY], sizes, rounds)
        for key, row in rows.items():
            times.setdefault(key, []).extend(row["rounds"])
        if torch:
            for size, seconds in run_gloo(ranks, list(every_size(*sizes)), rounds).items():
                times.setdefault(("gloo", size), []).extend(seconds)
    times = {key: median(seconds) for key, seconds in times.items()}

    names = [*own, "mpi", "best", *(["gloo"] if torch else [])]
    print(f"\n{ranks} ranks on {os.cpu_count()} cores, in place, median us"
          + ("" if torch else "   (no Gloo: python3-torch is not installed)"))
    print(f"{'size':>10}" + "".join(f"{name:>15}" for name in names) +
          "   segmented ring /: mpi   best" + ("   gloo" if torch else "") + "   best is")
    for size in every_size(*sizes):
        best = min(["mpi", *LIBRARY], key=lambda name: times[name, size])
        times["best", size] = times[best, size]
        print(f"{human(size):>10}" + "".join(f"{times[n, size] * 1e6:15.1f}" for n in names) +
              f"{'':20}" + "".join(f"{times['ring-segmented', size] / times[n, size]:7.2f}"
                                  for n in names[len(own):]) + f"   {best}")
    lines = {}
    for name in own:
        lines[name] = fit([(size, times[name, size]) for size in every_size(*sizes)])
        alpha, beta = lines[name]
        print(f"{name:>15}: {alpha * 1e6:8.1f} us + bytes / {beta * 1e-9:.2f} GB/s")
    meets = crossover(lines["naive"], lines["ring"])
    print("    naive and ring cross at " + (human(meets) if meets else "no size"))


# --- over a simulated link ------------------------------------------------------------------------


def model(name, ranks, size, alpha, beta):
    """Seconds that an all-reduce takes where every rank has one link; see the stages' headers."""
    if name == "naive":  # all gradients arrive at the root in a row, all sums leave it in a row
        return 2 * (alpha + (ranks - 1) * size / beta)
    if name == "ring":
        return 2 * (ranks - 1) * (alpha + size / ranks / beta)
    return (ranks - 1).bit_length() * (alpha + size / beta)  # tree


def over_link(program, ranks, link, rounds, picture):
    """Compares measured times with the model, prints fitted lines and draws them."""
    gigabytes, microseconds = map(float, link.split(","))
    alpha, beta = microseconds * 1e-6, gigabytes * 1e9
    sizes = (1024, 1 << 20, 4)
    names = ["naive", "ring"] + (["tree"] if power_of_two(ranks) else [])
    print(f"{ranks} ranks over a simulated link", file=sys.stderr)
    rows = run_ours(program, ranks, names, sizes, rounds, {"SIMGPU_LINK": link})
    print(f"\n{ranks} ranks over a simulated link of {gigabytes:g} GB/s and {microseconds:g} us:"
          " least measured us (model)")
    print(f"{'size':>10}" + "".join(f"{name:>24}" for name in names))
    right = True
    points = {name: [] for name in names}
    for size in every_size(*sizes):
        cells = []
        for name in names:
            row = rows[name, size]
            expected = model(name, ranks, size, alpha, beta)
            best = min(row["rounds"])  # a busy machine only ever adds to it
            points[name].append((size, best))
            off = max(abs(best / expected - 1), abs(row["modelled_seconds"] / expected - 1))
            right &= off <= TOLERANCE
            cells.append(f"{best * 1e6:12.0f} ({expected * 1e6:.0f})".rjust(23) +
                         (" " if off <= TOLERANCE else "!"))
        print(f"{human(size):>10}" + "".join(cells))
    lines = {name: fit(points[name]) for name in names}
    for name, (latency, bandwidth) in lines.items():
        print(f"{name:>15}: {latency * 1e6:8.1f} us + bytes / {bandwidth * 1e-9:.3f} GB/s")
    meets = crossover(lines["naive"], lines["ring"])
    print("    naive and ring cross at " + (human(meets) if meets else "no size"))
    if picture:
        draw(points, lines, meets, f"{ranks} ranks, each with a link of {gigabytes:g} GB/s and "
             f"{microseconds:g} µs", picture)
    if not right:
        print(f"over the link, times marked ! are more than {TOLERANCE:.0%} from the model")
    return right


def draw(points, lines, meets, title, path):
    try:
        import matplotlib
    except ImportError:
        print("no picture: python3-matplotlib is not installed")
        return
    matplotlib.use("Agg")  # no display needed
    from matplotlib import pyplot

    # Okabe and Ito's colours, which keep apart for colour-blind readers; markers differ too.
    looks = {"naive": ("#D55E00", "s", "-", "center"), "ring": ("#0072B2", "o", "-", "top"),
             "tree": ("#009E73", "^", "--", "bottom")}  # the last two end close to each other
    figure, axes = pyplot.subplots(figsize=(9, 5.5), dpi=150, layout="constrained")
    for name, measured in points.items():
        color, marker, dashes, side = looks[name]
        alpha, beta = lines[name]
        sizes = [size for size, _ in measured]
        fine = [sizes[0] * (sizes[-1] / sizes[0]) ** (i / 200) for i in range(201)]
        axes.loglog(fine, [(alpha + size / beta) * 1e3 for size in fine], dashes, color=color,
                    linewidth=1.8)
        axes.loglog(sizes, [seconds * 1e3 for _, seconds in measured], marker, color=color)
        axes.annotate(f" {name}:\n {alpha * 1e3:.2f} ms\n + bytes / {beta * 1e-6:.0f} MB/s",
                      (sizes[-1], (alpha + sizes[-1] / beta) * 1e3), color=color, weight="bold",
                      fontsize="small", va=side, xytext=(6, 0), textcoords="offset points")
    if meets:
        height = (lines["ring"][0] + meets / lines["ring"][1]) * 1e3
        axes.axvline(meets, color="#5A5A5A", linewidth=1, linestyle=":")
        axes.annotate(f"naive and ring cross\nat {human(meets)}", (meets, height),
                      xytext=(-12, 40), textcoords="offset points", ha="right", color="#5A5A5A",
                      arrowprops={"arrowstyle": "->", "color": "#5A5A5A"})
    axes.set_xlim(right=axes.get_xlim()[1] * 5)
    axes.set_xlabel("bytes of the buffer (log scale)")
    axes.set_ylabel("milliseconds of an all-reduce (log scale)")
    axes.set_title("Few bytes: count messages. Many bytes: count bytes.\n" + title, weight="bold")
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(1, -0.13, "measured on simulated GPUs over a simulated link (no hardware result); "
              "lines fitted to the points", color="#5A5A5A", ha="right", fontsize="small",
              transform=axes.transAxes)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"drawn: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="build/sim/bin/allreduce_perf")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=9, help="of each pass")
    parser.add_argument("--passes", type=int, default=2, help="of ours and Gloo in turns")
    parser.add_argument("--largest", type=int, default=64 << 20, help="bytes")
    parser.add_argument("--link", default="0.05,2000", help="SIMGPU_LINK of the second part")
    parser.add_argument("--only-link", action="store_true", help="skip the first part")
    parser.add_argument("--picture", type=Path, default=Path("docs/figures/allreduce_time.png"))
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    if not arguments.only_link:
        for ranks in arguments.ranks:
            compare(program, ranks, (4096, arguments.largest, 4), arguments.rounds,
                    arguments.passes)
    right = True
    for ranks in arguments.ranks:
        picture = arguments.picture if ranks == max(arguments.ranks) else None
        right &= over_link(program, ranks, arguments.link, arguments.rounds, picture)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
