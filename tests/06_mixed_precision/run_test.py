#!/usr/bin/env python3
"""Whole runs of stage 06: what a checkpoint keeps, what ends a run, and what is said of it.

    run_test.py build/sim/bin/06_mixed_precision [--simulated] [TEST...]
"""

import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest, read_tensors  # noqa: E402  (after the path)

SIMULATED = "--simulated" in sys.argv
SMALL = ("--data", "synthetic", "--layers", "20-16-4", "--global-batch", 24, "--quiet")
# The first steps overflow; after three good ones in a row the scale grows.
DYNAMIC = ("--precision", "fp16", "--first-loss-scale", 2**23, "--loss-scale-interval", 3)


def facts(events):
    """Of each step, what must be the same in a run that was resumed."""
    return [(e["step"], e["loss"], e["samples"], e["learning_rate"], e["loss_scale"], e["skipped"])
            for e in events["step"]]


def is_half(value):
    return struct.unpack("e", struct.pack("e", value))[0] == value


class Checkpoints(JobTest):
    def test_ck_05_a_resumed_run_is_a_continuation_with_scale_counters_and_momentum(self):
        # 10,000 samples in batches of 900: the epoch ends, with a short batch, after step 12. The
        # file is written within a growth interval, after skipped steps and a growth.
        options = (*SMALL[:4], "--global-batch", 900, "--quiet", "--precision", "fp16",
                   "--first-loss-scale", 2**28, "--loss-scale-ceiling", 2**30,
                   "--loss-scale-interval", 3, "--clip-norm", 1, "--weight-decay", 0.01)
        half, whole_file, rest_file = (self.folder / name for name in ("half", "whole", "rest"))
        whole = self.metrics(2, *options, "--steps", 16, "--save", whole_file)
        begun = self.metrics(2, *options, "--steps", 8, "--save", half)
        rest = self.metrics(2, *options, "--steps", 16, "--save", rest_file, "--resume", half)
        self.assertEqual(facts(begun) + facts(rest), facts(whole))
        self.assertEqual(rest["end"][0]["parameter_checksum"],
                         whole["end"][0]["parameter_checksum"])
        self.assertEqual(rest_file.read_bytes(), whole_file.read_bytes())

        # The file keeps the numbers in fp32, of which hardly any is a half.
        _, tensors = read_tensors(half)
        scale, good_steps, applied, skipped = tensors["loss_scale"]
        outcomes = [step["skipped"] for step in begun["step"]]
        self.assertEqual((applied, skipped), (outcomes.count(False), outcomes.count(True)))
        self.assertGreater(skipped, 0)
        self.assertIn(good_steps, (1, 2))
        self.assertEqual(scale, rest["step"][0]["loss_scale"])
        for name in ("model.layers.0.weight", "model.layers.1.weight"):
            halves = sum(map(is_half, tensors[name]))
            self.assertLess(halves, len(tensors[name]) / 10, name)

        done = self.job(None, *options[:7], "--precision", "fp16", "--clip-norm", 1,
                        "--weight-decay", 0.01, "--loss-scale", 128, "--resume", half)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--loss-scale is 128, but", done.stderr)
        self.assertIn("written with dynamic", done.stderr)

        # On one rank the sums are made in another order: the scale goes on, the loss is close.
        alone = self.metrics(None, *options, "--steps", 9, "--resume", half)
        self.assertEqual([f[4:] for f in facts(alone)], [f[4:] for f in facts(rest)][:1])
        self.assert_close([alone["step"][0]["loss"]], [rest["step"][0]["loss"]], 1e-6)

    def test_ck_05_the_reproducible_mode_goes_on_to_the_bit_on_any_number_of_ranks(self):
        options = (*SMALL, *DYNAMIC, "--micro-batch", 3, "--accumulate", "pairwise",
                   "--allreduce", "tree")
        half = self.folder / "half"
        whole = self.metrics(None, *options, "--steps", 14)
        self.metrics(2, *options, "--steps", 7, "--save", half)
        for ranks in (None, 4):
            rest = self.metrics(ranks, *options, "--steps", 14, "--resume", half)
            self.assertEqual(facts(rest), facts(whole)[7:])
            self.assertEqual(rest["end"][0]["parameter_checksum"],
                             whole["end"][0]["parameter_checksum"])


class Overflows(JobTest):
    def test_mp_02_skipped_steps_change_nothing_and_are_told(self):
        # A gradient of an output is near 0.75 / 24 at first: times 2^24 or 2^23 it is no half.
        options = (*SMALL, "--precision", "fp16", "--first-loss-scale", 2**24)
        first, skipping = (self.folder / name for name in ("first", "skipping"))
        self.metrics(None, *options, "--steps", 0, "--save", first)
        events = self.metrics(2, *options, "--steps", 2, "--save", skipping)
        self.assertEqual([(s["loss_scale"], s["skipped"]) for s in events["step"]],
                         [(2**24, True), (2**23, True)])
        (_, before), (_, after) = read_tensors(first), read_tensors(skipping)
        self.assertEqual(before.pop("loss_scale"), (2**24, 0, 0, 0))
        self.assertEqual(after.pop("loss_scale"), (2**22, 0, 0, 2))
        self.assertEqual(before, after)  # weights and velocities
        done = self.job(None, *options, "--steps", 2)
        self.assertRegex(done.stdout, r"loss scale +8388608 in the last step; 2 steps skipped\n")

    def test_mp_02_with_no_smaller_scale_left_it_is_a_failure(self):
        for scale in (("--loss-scale", 2**24),
                      ("--first-loss-scale", 2**24, "--loss-scale-floor", 2**23)):
            done = self.job(2, *SMALL, "--precision", "fp16", *scale, "--steps", 20)
            self.assertEqual((done.returncode, done.stderr.count("error:")), (4, 1), done.stderr)
            self.assertIn(f"non-finite gradient in step {len(scale) // 2} on all ranks",
                          done.stderr)
            self.assertIn("A smaller --loss-scale may help.", done.stderr)

    def test_fa_03_a_loss_that_is_not_finite_is_a_failure_not_a_skip(self):
        for kind in ("nan", "inf"):
            done = self.job(2, *SMALL, "--precision", "fp16", "--steps", 20,
                            DDP_FAULT=f"1:3:{kind}")
            self.assertEqual((done.returncode, done.stderr.count("error:")), (4, 1), done.stderr)
            self.assertIn("in step 3 on rank 1", done.stderr)
            self.assertIn("non-finite loss", done.stderr)


class Words(JobTest):
    def test_a_gpu_without_bfloat16_is_refused_by_all_ranks_at_once(self):
        if not SIMULATED:
            self.skipTest("takes a GPU of compute capability 7.5")
        done = self.job(2, *SMALL, "--precision", "bf16", "--steps", 3,
                        SIMGPU_COMPUTE_CAPABILITY="7.5")
        self.assertEqual((done.returncode, done.stderr.count("error:")), (6, 1), done.stderr)
        self.assertIn("--precision bf16 needs a GPU of compute capability 8.0 or above; device",
                      done.stderr)
        self.assertIn("has 7.5. --precision fp16 works there.", done.stderr)
        done = self.job(None, *SMALL, "--precision", "fp16", "--steps", 3,
                        SIMGPU_COMPUTE_CAPABILITY="7.5")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_metrics_have_the_scale_of_each_step(self):
        for options, scale in ((("--precision", "bf16"), 1), (("--precision", "fp16"), 65536)):
            events = self.metrics(None, *SMALL, "--steps", 3, *options)
            self.assertEqual([(s["loss_scale"], s["skipped"]) for s in events["step"]],
                             [(scale, False)] * 3)


if __name__ == "__main__":
    JobTest.program = sys.argv.pop(1)
    sys.argv = [word for word in sys.argv if word != "--simulated"]
    unittest.main()
