#!/usr/bin/env python3
"""Whole runs of stage 05: bucket options at the edges, a stall, one device for two ranks.

    run_test.py build/sim/bin/05_nccl_ddp [TEST...]
"""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest, write_images  # noqa: E402  (after the path)

SMALL = ("--data", "synthetic", "--layers", "20-16-4", "--quiet")
BYTE = 1 / 2**20  # in MiB


class Buckets(JobTest):
    def small_mnist(self):
        """Twelve images of 784 pixels, none like another."""
        pixels = [[(7 * i + 13 * s * s) % 256 for i in range(784)] for s in range(12)]
        return write_images(self.folder / "data", pixels, [s % 10 for s in range(12)])

    def plan(self, output):
        """The bytes of the printed plan's buckets, and its total."""
        rows = re.findall(r"^ +(\d+) +(\d+)  layers", output, re.MULTILINE)
        self.assertEqual([int(number) for number, _ in rows], list(range(len(rows))))
        return [int(size) for _, size in rows], int(re.search(r"total +(\d+)", output)[1])

    def test_dd_03_every_cap_gives_the_plan_of_the_case_and_the_same_weights(self):
        options = ("--data", self.small_mnist(), "--layers", "784-128-10", "--global-batch", 4,
                   "--steps", 3, "--quiet", "--print-buckets")
        one_each = [40, 5120, 512, 401408]
        checksums = set()
        for first, cap, expected in (
                (BYTE, BYTE, one_each), (0, 0, one_each), (5000 * BYTE, 5000 * BYTE, [5160, 401920]),
                (1, 1, [407080]), (1024, 1024, [407080]), (BYTE, 1, [40, 407040])):
            done = self.job(2, *options, "--first-bucket-mb", f"{first:.12f}",
                            "--bucket-mb", f"{cap:.12f}")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(self.plan(done.stdout), (expected, 407080))
            self.assertRegex(done.stdout, rf"all-reduces +{3 * len(expected)} of")
            checksums.add(re.search(r"parameter checksum +(\w+)", done.stdout)[1])
        self.assertEqual(len(checksums), 1)

    def test_dd_03_nonsense_is_refused_with_the_name_of_the_option(self):
        for option in ("--bucket-mb", "--first-bucket-mb"):
            for value in ("-1", "abc", "nan"):
                done = self.job(None, *SMALL, f"{option}={value}")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(option, done.stderr)
        done = self.job(2, *SMALL, "--overlap", "perhaps")
        self.assertEqual((done.returncode, done.stderr.count("error:")), (2, 1), done.stderr)
        self.assertIn("--overlap", done.stderr)


class Failures(JobTest):
    def test_fa_01_d_a_stall_names_bucket_step_and_missing_rank(self):
        timeout = 2
        done = self.job(3, *SMALL, "--bucket-mb", 0, "--first-bucket-mb", 0, "--steps", 200,
                        "--timeout", timeout, DDP_FAULT="1:3:stall")
        self.assertEqual(done.returncode, 5, done.stderr)
        first, *others = done.stderr.splitlines()
        self.assertRegex(first, r"error: rank [02], step [34]: the all-reduce of bucket \d has not "
                                r"ended in 2\.\d s; --timeout is 2 s")
        self.assertIn("  missing: rank 1", others)
        # Ranks have four buckets a step; who stalls does so before or after those of its step.
        stalled = next(line for line in others if line.startswith("  rank 1: step 3, "))
        self.assertRegex(stalled, "has enqueued (8|12) all-reduces")
        self.assertLess(done.seconds, timeout + 10)

    def test_two_ranks_on_one_device_are_refused(self):
        done = self.job(2, *SMALL, "--steps", 3, "--share-device", SIMGPU_DEVICES="1")
        self.assertEqual((done.returncode, done.stderr.count("error:")), (5, 1), done.stderr)
        self.assertIn("NCCL: invalid usage", done.stderr)
        self.assertIn("both use device 0", done.stderr)

    def test_en_05_host_memory_where_mpi_may_not_take_device_pointers(self):
        # NCCL has no part in it; the ways over MPI go through host memory unless told otherwise.
        checksums = set()
        for way in (("naive", "auto"), ("naive", "host"), ("nccl", "host")):
            done = self.job(2, *SMALL, "--steps", 3, "--allreduce", way[0], "--mpi-buffers", way[1])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            checksums.add(re.search(r"parameter checksum +(\w+)", done.stdout)[1])
        self.assertEqual(len(checksums), 1)


if __name__ == "__main__":
    JobTest.program = sys.argv.pop(1)
    unittest.main()
