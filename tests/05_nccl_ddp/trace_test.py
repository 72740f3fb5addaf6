#!/usr/bin/env python3
"""Two ranks with --trace: the rows of both, and each all-reduce where it belongs.

    python3 trace_test.py build/sim/bin/05_nccl_ddp
"""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
RANKS, STEPS = 2, 6
ROUNDED = 0.002  # microseconds: the file has nanoseconds

# 784-256-256-256-10, in buckets of at least 262144 bytes, the first of at least 1048: the last
# layer, then each layer with its bias. In floats; a parameter begins at a multiple of 64, and the
# first bucket has the extras: loss, hits, stop, and the flags of two ranks.
FIRST_LAYERS = [3, 2, 1, 0]  # by bucket: whose gradients are its last ones
BYTES = [4 * (256 * 10 + 64 + 5), 4 * (256 * 256 + 256), 4 * (256 * 256 + 256),
         4 * (784 * 256 + 256)]


class Traces(JobTest):
    options = ("--layers", "784-256-256-256-10", "--steps",
               str(STEPS), "--bucket-mb", "0.25", "--first-bucket-mb", "0.001", "--quiet")

    def trace(self, *options, status=0, **variables):
        path = self.folder / "trace.json"
        done = self.job(RANKS, "--trace", path, *options, SIMGPU_LINK="1,20", **variables)
        self.assertEqual(done.returncode, status, done.stderr)
        self.whole = json.loads(path.read_text(encoding="utf-8"))
        events = self.whole["traceEvents"]
        self.rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
                     if e["name"] == "thread_name"}
        self.events = [e for e in events if e["ph"] == "X"]
        return path

    def of(self, rank, row, step, kind):
        return [e for e in self.events if e["pid"] == rank and e["args"]["step"] == step
                and self.rows[rank, e["tid"]] == row and e["cat"] == kind]

    def last_product(self, rank, step, layer):
        """The end of the product that makes the gradient of this layer's weights."""
        products = [e for e in self.of(rank, "compute", step, "product")
                    if e["args"]["range"] == f"backward/layers.{layer}"]
        return products[0]["ts"] + products[0]["dur"]

    def test_each_rank_has_its_rows_and_its_buckets(self):
        self.trace()
        about = self.whole["otherData"]
        self.assertEqual((about["world_size"], about["omitted_by_rank"]), (RANKS, [0, 0]))
        self.assertNotIn("note", about)
        processes = [e["args"]["name"] for e in self.whole["traceEvents"]
                     if e["name"] == "process_name"]
        self.assertEqual([name.split(":")[0] for name in processes], ["rank 0", "rank 1"])
        self.assertEqual({e["pid"] for e in self.events}, {0, 1})
        for rank in range(RANKS):
            names = [name for (of, _), name in self.rows.items() if of == rank]
            self.assertEqual(sorted(names), ["communication", "compute", "loader"])
            for step in range(1, STEPS + 1):
                reduced = self.of(rank, "communication", step, "collective")
                self.assertEqual([e["args"]["bytes"] for e in reduced], BYTES)
                # in the first step all come after the backward pass
                self.assertEqual([e["args"]["range"] for e in reduced], [
                    f"bucket {bucket}" if step == 1 else f"backward/layers.{layer}/bucket {bucket}"
                    for bucket, layer in enumerate(FIRST_LAYERS)])
                self.assertEqual({e["name"] for e in reduced}, {"ncclAllReduce"})

    def test_a_bucket_comes_after_its_gradients_and_one_before_the_backward_pass_has_ended(self):
        self.trace()
        overlapping = {0: 0, 1: 0}
        for rank in range(RANKS):
            for step in range(1, STEPS + 1):
                starts = [e["ts"] for e in self.of(rank, "communication", step, "collective")]
                self.assertEqual(starts, sorted(starts))
                for start, layer in zip(starts, FIRST_LAYERS):
                    made = self.last_product(rank, step, layer)
                    self.assertGreaterEqual(start, made - ROUNDED, f"rank {rank}, step {step}")
                overlapping[rank] += starts[0] < self.last_product(rank, step, 0)
        self.assertGreater(min(overlapping.values()), 0, overlapping)

    def test_without_overlap_all_buckets_come_after_the_backward_pass(self):
        self.trace("--overlap", "off")
        for rank in range(RANKS):
            for step in range(1, STEPS + 1):
                reduced = self.of(rank, "communication", step, "collective")
                self.assertEqual(len(reduced), len(BYTES))
                end = self.last_product(rank, step, 0)
                self.assertGreaterEqual(min(e["ts"] for e in reduced), end - ROUNDED)
                self.assertEqual({e["args"]["range"][:6] for e in reduced}, {"bucket"})

    def test_the_update_waits_for_the_last_bucket(self):
        self.trace()
        for rank in range(RANKS):
            for step in range(1, STEPS + 1):
                reduced = self.of(rank, "communication", step, "collective")
                updates = [e["ts"] for e in self.of(rank, "compute", step, "kernel")
                           if e["args"]["range"] == "update"]
                self.assertGreaterEqual(min(updates), reduced[-1]["ts"] + reduced[-1]["dur"]
                                        - ROUNDED)

    def test_a_failed_run_leaves_what_rank_0_saw(self):
        for fault, status in (("0:4:throw", 1), ("1:3:nan", 4)):
            self.trace(status=status, DDP_FAULT=fault)
            self.assertEqual({e["pid"] for e in self.events}, {0})
            self.assertIn(2, {e["args"]["step"] for e in self.events})
            self.assertIn("this is what rank 0 saw", self.whole["otherData"]["note"])
            self.assertEqual(self.whole["otherData"]["world_size"], RANKS)

    def test_if_another_rank_fails_the_trace_says_that_nothing_is_in_it(self):
        self.trace(status=1, DDP_FAULT="1:3:throw")
        self.assertEqual(self.events, [])
        self.assertIn("ended before rank 0 could write", self.whole["otherData"]["note"])

    def test_the_tools_read_it(self):
        path = self.trace()
        done = subprocess.run([sys.executable, TOOLS / "trace.py", path, "--machine", "/nowhere",
                               "--columns", "80"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("rank 0 communication", "rank 1 communication", "all-reduces of a step,"
                      " mean of steps 3 to 6", "communication: ncclAllReduce"):
            self.assertIn(words, done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_a_path_that_cannot_be_written_stops_all_ranks(self):
        done = self.job(RANKS, "--trace", self.folder / "no" / "trace.json")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr, f"error: rank 0: {self.folder}/no/trace.json: cannot be"
                                      " written: No such file or directory\n")


if __name__ == "__main__":
    Traces.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
