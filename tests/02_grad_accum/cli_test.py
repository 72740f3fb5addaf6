#!/usr/bin/env python3
"""Runs the program of stage 02 as a person would: what it adds to stage 01's command line.

Usage: cli_test.py PROGRAM STAGE_01
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM, STAGE_01 = map(os.path.abspath, sys.argv[1:3])
TINY = ["--data", "synthetic", "--layers", "20-16-4", "--global-batch", "30"]


def run(*arguments, program=PROGRAM, **environment):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def fails(self, code, *words, arguments, program=PROGRAM, **environment):
        result = run(*arguments, program=program, **environment)
        self.assertEqual(result.returncode, code, result.stderr)
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        for word in words:
            self.assertIn(word, errors[0])
        self.assertNotIn("parameter checksum", result.stdout)

    def metrics_of(self, *arguments):
        path = self.path("m.jsonl")
        result = run(*TINY, *arguments, "--metrics", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        return lines_of(path)

    def test_bad_values_are_named_with_what_is_allowed(self):
        for text in ("0", "-1", "abc", "", "2.5", "4x", "99999999999"):
            with self.subTest(text):
                self.fails(2, "--micro-batch", text, arguments=["--micro-batch", text])
        self.fails(2, "--accumulate", "tree", "running", "pairwise",
                   arguments=["--accumulate", "tree"])
        self.fails(2, "--micro-batch", arguments=["--micro-batch"])

    def test_stage_01_has_no_micro_batches_and_this_one_no_ranks(self):
        for option in (["--micro-batch", "4"], ["--accumulate", "pairwise"], ["--check-gradients"]):
            self.fails(2, "unknown", option[0], program=STAGE_01, arguments=[*TINY, *option])
        for option in (["--allreduce", "naive"], ["--timeout", "1"]):
            self.fails(2, "unknown", option[0], "--micro-batch", arguments=[*TINY, *option])

    def test_help_tells_of_them(self):
        self.assertIn("--micro-batch", run("--help").stdout)
        for option in ("--micro-batch", "--accumulate", "--check-gradients"):
            self.assertIn(option, run("--help-all").stdout)

    def test_metrics_say_how_the_batch_was_cut_and_count_whole_batches(self):
        first, *steps, end = self.metrics_of("--steps", "3", "--micro-batch", "8", "--accumulate",
                                             "pairwise")
        self.assertEqual(first["stage"], "02_grad_accum")
        self.assertEqual(first["options"]["micro_batch"], 8)
        self.assertEqual(first["options"]["accumulate"], "pairwise")
        self.assertEqual([step["samples"] for step in steps], [30, 30, 30])
        self.assertGreater(end["peak_device_bytes"], 32 << 20)

    def test_checked_gradients_are_an_event_a_step(self):
        events = self.metrics_of("--steps", "3", "--micro-batch", "8", "--check-gradients")
        checks = [event for event in events if event["event"] == "check"]
        self.assertEqual([check["step"] for check in checks], [1, 2, 3])
        for check in checks:
            self.assertLess(check["loss_difference"], 1e-6)
            self.assertLess(check["gradient_difference"], 1e-5)

    def test_a_cut_changes_neither_which_samples_a_step_has_nor_their_order(self):
        samples = []
        for cut in ([], ["--micro-batch", "7"], ["--micro-batch", "7", "--accumulate", "pairwise"]):
            path = self.path("s.jsonl")
            result = run(*TINY, *cut, "--steps", "5", "--dump-samples", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            samples.append([line["ids"] for line in lines_of(path)])
        self.assertEqual([len(ids) for ids in samples[0]], [30] * 5)
        self.assertEqual(samples[1], samples[0])
        self.assertEqual(samples[2], samples[0])

    def test_FA_03_what_is_not_finite_in_one_micro_batch_ends_the_run_at_its_step(self):
        for accumulate in ("running", "pairwise"):
            for kind in ("nan", "inf"):
                self.fails(4, "non-finite", "step 2", DDP_FAULT=f"0:2:{kind}", arguments=[
                    *TINY, "--steps", "9", "--micro-batch", "7", "--accumulate", accumulate])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
