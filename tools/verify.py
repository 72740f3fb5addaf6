#!/usr/bin/env python3
"""Do N GPUs train as one does? Tries the course's promise on this machine and gives a verdict.

    ./course verify [STAGE] [--ranks N]

  A  the same micro-batches added in the same order give the same bits
  B  in fp64 every cut of the batch gives the same losses, to 1e-12
  C  from the same weights, loss and gradient are those of one pass over the whole batch (with GELU:
     a ReLU whose input is within a rounding of zero may flip, and its gradient is then another)

From stage 06 on A and C also in fp16 and bf16.

The status is 0 for PASS, 1 for FAIL or where the programs fail, 6 where real GPUs are too few.
"""

import argparse
import os
import subprocess
import sys
import tempfile

from runner import RunFailed, Runner

ONE = "02_grad_accum"  # one GPU, in micro-batches
BATCH = 240  # 1, 2, 3 and 4 divide it
LOSS_BOUND, GRADIENT_BOUND, FP64_BOUND = 1e-6, 1e-5, 1e-12
HALF_BOUND = 2e-3  # of loss and gradient
LINK = "12.5,20"  # GB/s and us: a network of 100 Gbit/s
# The default net has 2 MiB of gradients: in one bucket, in two, in one a parameter.
NCCL_WAYS = [
    ("nccl, one bucket", ("--bucket-mb", 1000, "--first-bucket-mb", 1000)),
    ("nccl, buckets", ("--bucket-mb", 1, "--first-bucket-mb", 0.1)),
    ("nccl, a bucket a parameter", ("--bucket-mb", 0, "--first-bucket-mb", 0)),
    ("nccl, buckets, no overlap", ("--bucket-mb", 1, "--first-bucket-mb", 0.1, "--overlap", "off")),
]


def largest_difference(a, b):
    """Of two runs' losses, relative to the first's, over all steps."""
    return max(abs(x - y) / abs(x) for x, y in zip(a.losses, b.losses, strict=True))


class Verdict:
    """Prints one line a finding and remembers whether any was bad."""

    def __init__(self):
        self.failed = 0

    def row(self, part, what, value, good):
        self.failed += not good
        print(f"  {part:2} {what:54} {value:>16}  {'ok' if good else 'FAIL'}", flush=True)


def same_bits(verdict, part, what, one, many):
    equal = (one.losses == many.losses
             and one.end["parameter_checksum"] == many.end["parameter_checksum"])
    steps = next((i + 1 for i, (a, b) in enumerate(zip(one.losses, many.losses)) if a != b), None)
    value = "equal" if equal else f"from step {steps}" if steps else "weights differ"
    verdict.row(part, what, value, equal)


def part_a(verdict, run, stage, ranks, steps):
    """One GPU with N micro-batches against N GPUs with one each."""
    common = ("--steps", steps, "--global-batch", BATCH)
    one = run(ONE, None, *common, "--micro-batch", BATCH // ranks)
    if stage == ONE:
        again = run(ONE, None, *common, "--micro-batch", BATCH // ranks)
        same_bits(verdict, "A", f"{ranks} micro-batches, twice", one, again)
    else:
        for name, options in adding_in_order(stage, one.run["simulated"]):
            many = run(stage, ranks, *common, "--check-replicas", 1, *options)
            what = f", {name}" if stage >= "05" else ": losses, weights"
            same_bits(verdict, "A", f"{ranks} micro-batches and {ranks} GPUs{what}", one, many)
        verdict.row("A", "replicas, bitwise, after every step", "equal", True)
    fell = sum(one.losses[-20:]) / sum(one.losses[:20])
    verdict.row("", "mean loss, last 20 steps against first 20", f"x {fell:.3f}", fell < 0.9)


def adding_in_order(stage, simulated):
    """(name, options) of the all-reduces that add in the order of the ranks."""
    if stage.startswith("03"):
        return [("naive", ())]
    ways = [("naive", ("--allreduce", "naive"))]
    if stage >= "05" and simulated:  # real NCCL has an order of its own
        ways += NCCL_WAYS
    return ways


def reproducible(verdict, run, stage, ranks, steps):
    options = ("--steps", steps, "--micro-batch", 32, "--accumulate", "pairwise")
    if stage.startswith("03") or ranks & (ranks - 1):
        return
    one = run(ONE, None, *options)
    many = run(stage, None if stage == ONE else ranks, *options,
               *(() if stage == ONE else ("--allreduce", "tree")))
    same_bits(verdict, "A", f"reproducible mode on {1 if stage == ONE else ranks} and 1", one, many)


def reductions(stage):
    """(name, options) for each all-reduce of the stage."""
    if stage == ONE:
        return [("running", ()), ("pairwise", ("--accumulate", "pairwise"))]
    if stage.startswith("03"):
        return [("naive", ())]
    if stage >= "05":
        return NCCL_WAYS
    return [(name, ("--allreduce", name)) for name in ("naive", "ring", "ring-segmented", "tree")]


def parts_b_and_c(verdict, run, stage, ranks, steps):
    batch = ("--steps", steps, "--global-batch", 250)  # 3 and 4 do not divide it
    whole = run(ONE, None, *batch, "--precision", "fp64")
    many_ranks = None if stage == ONE else ranks
    for name, options in reductions(stage):
        if name == "tree" and ranks & (ranks - 1):
            continue
        cut = ("--micro-batch", 250 // ranks) if stage == ONE else ()
        many = run(stage, many_ranks, *batch, "--precision", "fp64", *cut, *options)
        difference = largest_difference(whole, many)
        verdict.row("B", f"fp64, {name}: loss", f"{difference:.1e}", difference <= FP64_BOUND)
        checked = run(stage, many_ranks, *batch, "--check-gradients", "--activation", "gelu", *cut,
                      *options).checks
        loss = max(check["loss_difference"] for check in checked)
        gradient = max(check["gradient_difference"] for check in checked)
        verdict.row("C", f"fp32 GELU, {name}: loss", f"{loss:.1e}", loss <= LOSS_BOUND)
        verdict.row("C", f"fp32 GELU, {name}: gradient", f"{gradient:.1e}",
                    gradient <= GRADIENT_BOUND and len(checked) == steps)


def parts_in_halves(verdict, run, stage, ranks, steps):
    """Stage 06: the one GPU is its own, since no stage before has halves."""
    options = ("--steps", steps, "--global-batch", BATCH, "--precision")
    cut = ("--micro-batch", BATCH // ranks)
    for precision in ("fp16", "bf16"):
        one = run(stage, 1, *options, precision, *cut)
        for name, way in adding_in_order(stage, one.run["simulated"]):
            many = run(stage, ranks, *options, precision, "--check-replicas", 1, *way)
            same_bits(verdict, "A", f"{precision}, {name}: losses, weights", one, many)
        checked = run(stage, ranks, *options, precision, "--check-gradients", "--activation",
                      "gelu").checks
        for what in ("loss", "gradient"):
            difference = max(check[f"{what}_difference"] for check in checked)
            verdict.row("C", f"{precision} GELU: {what}", f"{difference:.1e}",
                        difference <= HALF_BOUND and len(checked) == steps)


def free_run(run, stage, ranks, steps):
    """Not judged: in fp32 two correct programs drift apart by rounding."""
    whole = run(ONE, None, "--steps", steps)
    many = run(stage, None if stage == ONE else ranks, "--steps", steps,
               *(("--micro-batch", 256 // ranks) if stage == ONE else ()))
    print(f"     fp32, free run: largest difference of the loss in {steps} steps"
          f" {largest_difference(whole, many):19.1e}  not judged")


def collective_costs(run, stage, ranks):
    gigabytes, latency = map(float, LINK.split(","))
    print(f"\n  a step's all-reduces, and their time in a ring over links of {gigabytes} GB/s and"
          f" {latency:.0f} us (by formula)\n")
    print("  all-reduce                         number            bytes          time")
    for name, options in reductions(stage):
        traffic = run(stage, ranks, "--steps", 4, *options).end["traffic"][0]
        number, size = traffic["collectives"] / 4, traffic["collective_bytes"] / 4
        seconds = 2 * (ranks - 1) * (number * latency * 1e-6 + size / ranks / (gigabytes * 1e9))
        print(f"  {name:30} {number:10.0f} {size / 1e6:13.3f} MB {seconds * 1e3:10.3f} ms")


def costs(run, stage, ranks):
    if stage >= "05":
        collective_costs(run, stage, ranks)
        return
    print(f"\n  a step's messages, and their time over links of {LINK.split(',')[0]} GB/s and"
          f" {LINK.split(',')[1]} us (modelled)\n")
    print("  all-reduce        rank 0 sends          the others         messages          time")
    for name, options in reductions(stage):
        if name == "tree" and ranks & (ranks - 1):
            continue
        result = run(stage, ranks, "--steps", 4, *options, variables={"SIMGPU_LINK": LINK})
        root, *others = result.end["traffic"]
        sent = max((rank["bytes_sent"] for rank in others), default=0)
        seconds = max(rank.get("modelled_seconds", 0) for rank in (root, *others))
        print(f"  {name:14} {root['bytes_sent'] / 4e6:11.3f} MB {sent / 4e6:16.3f} MB"
              f" {root['messages_sent'] / 4:16.0f} {seconds / 4 * 1e3:10.3f} ms")


def physical_gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30,
                                check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("programs", help="folder of the built programs")
    parser.add_argument("stage")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--layers", default="784-512-256-10", help="a smaller net is faster")
    parser.add_argument("--brief", action="store_true", help="only what is judged")
    arguments = parser.parse_args()
    stage, ranks = arguments.stage, arguments.ranks
    if not 1 <= ranks <= 240 or BATCH % ranks != 0:
        parser.error(f"--ranks is {ranks}; it must divide {BATCH}")
    with tempfile.TemporaryDirectory() as scratch:
        run = Runner(arguments.programs, scratch, "--layers", arguments.layers)
        try:
            probe = run(ONE, None, "--steps", 1)
            simulated = probe.run["simulated"]
            if not simulated and (found := physical_gpus()) < 2:
                print(f"verify: requires at least 2 physical GPUs; found {found}", file=sys.stderr)
                return 6
            cores = os.cpu_count() or 1
            print(f"{stage}: {ranks} GPUs against one, on {probe.run['device']}"
                  f" ({arguments.steps} steps, Fashion-MNIST)\n")
            verdict = Verdict()
            part_a(verdict, run, stage, ranks, arguments.steps)
            reproducible(verdict, run, stage, ranks, arguments.steps)
            parts_b_and_c(verdict, run, stage, ranks, arguments.steps)
            if stage >= "06":
                parts_in_halves(verdict, run, stage, ranks, arguments.steps)
            if not arguments.brief:
                free_run(run, stage, ranks, arguments.steps)
                if stage != ONE and ranks > 1:
                    costs(run, stage, ranks)
        except RunFailed as error:
            print(f"verify: {error}\n\nFAIL", file=sys.stderr)
            return 1
    print("\n" + ("FAIL" if verdict.failed else "PASS") +
          (f": {verdict.failed} findings are bad" if verdict.failed else ""))
    if simulated:
        print(f"on simulated GPUs ({ranks} on {cores} cores): this is no hardware result")
    return 1 if verdict.failed else 0


if __name__ == "__main__":
    sys.exit(main())
