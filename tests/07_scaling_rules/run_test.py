#!/usr/bin/env python3
"""Whole runs of stage 07: a warm-up that is interrupted, rates as printed, options that are refused.

    run_test.py build/sim/bin/07_scaling_rules [TEST...]
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest, read_tensors  # noqa: E402  (after the path)

SMALL = ("--data", "synthetic", "--layers", "20-16-4", "--quiet")
# LR-01: micro-batches of 32, four of them, on four ranks, and a warm-up of five updates.
CASE_1 = (*SMALL, "--base-lr", 0.1, "--base-batch", 256, "--global-batch", 512, "--micro-batch", 32,
          "--warmup-steps", 5)


class Rates(JobTest):
    def test_lr_01_the_rates_are_those_of_the_case_on_any_number_of_ranks(self):
        for ranks in (1, 3, 4):
            events = self.metrics(ranks, *CASE_1, "--steps", 7)
            rates = [step["learning_rate"] for step in events["step"]]
            self.assert_close(rates, [0.04, 0.08, 0.12, 0.16, 0.2, 0.2, 0.2], 1e-15)
            options = events["run"][0]["options"]
            self.assertEqual((options["learning_rate"], options["base_learning_rate"],
                              options["base_batch"], options["scaling"], options["warmup_steps"]),
                             (None, 0.1, 256, "linear", 5))

    def test_lr_01_the_first_update_changes_the_weights(self):
        paths = [self.folder / name for name in ("before", "after")]
        for steps, path in enumerate(paths):
            self.metrics(2, *CASE_1, "--steps", steps, "--save", path)
        before, after = (read_tensors(path)[1]["model.layers.1.weight"] for path in paths)
        self.assertNotEqual(before, after)

    def test_the_rate_is_on_the_screen_where_it_changes(self):
        shown = self.job(1, *CASE_1, "--steps", 7).stdout
        self.assertRegex(shown, r"learning rate +0\.04 in step 1, at most 0\.2 \(step 5\), "
                                r"0\.2 in step 7")
        self.assertNotIn("learning rate", self.job(1, *SMALL, "--lr", 0.1, "--steps", 3).stdout)


class Checkpoints(JobTest):
    def test_ck_05_a_run_that_stops_in_its_warm_up_goes_on_to_the_bit(self):
        for form in ("gradient", "velocity"):
            options = (*CASE_1, "--momentum-form", form, "--schedule", "step", "--clip-norm", 0.5,
                       "--decay-every-epochs", 0.4)  # 8 of 20 steps
            with self.subTest(form):
                path = self.folder / form
                whole = self.metrics(2, *options, "--steps", 10)
                self.metrics(2, *options, "--steps", 3, "--save", path)
                tensors = read_tensors(path)[1]
                updates, last_rate = tensors["schedule"]
                self.assertEqual(updates, 3)
                self.assertAlmostEqual(last_rate, 0.12, 7)
                rest = self.metrics(2, *options, "--steps", 10, "--resume", path)
                for field in ("loss", "learning_rate"):
                    self.assertEqual([step[field] for step in rest["step"]],
                                     [step[field] for step in whole["step"]][3:])
                self.assertEqual(rest["end"][0]["parameter_checksum"],
                                 whole["end"][0]["parameter_checksum"])

    def test_ck_05_also_on_another_number_of_ranks(self):
        options = (*CASE_1, "--momentum-form", "velocity", "--precision", "fp64")
        path = self.folder / "state"
        whole = self.losses(2, *options, "--steps", 10)
        self.metrics(2, *options, "--steps", 3, "--save", path)
        for ranks in (1, 4):
            self.assert_close(self.losses(ranks, *options, "--steps", 10, "--resume", path),
                              whole[3:], 1e-12)

    def test_ck_05_a_cosine_goes_on_where_a_fault_has_ended_it(self):
        options = (*CASE_1, "--schedule", "cosine", "--steps", 10)
        path = self.folder / "state"
        whole = self.losses(2, *options)
        done = self.job(2, *options, "--save", path, "--save-every", 3, DDP_FAULT="1:5:throw")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.losses(2, *options, "--resume", path), whole[3:])

    def test_ck_05_the_form_of_momentum_belongs_to_the_checkpoint(self):
        path = self.folder / "state"
        self.metrics(1, *CASE_1, "--steps", 2, "--save", path)
        done = self.job(1, *CASE_1, "--steps", 4, "--resume", path, "--momentum-form", "velocity")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"--momentum-form is velocity, but {path} was written with gradient",
                      done.stderr)


class Refusals(JobTest):
    def test_options_that_do_not_go_together(self):
        for options, expected in (
                (("--lr", 0.1, "--base-lr", 0.1), "expected --lr, or --base-lr"),
                (("--warmup-steps", 5, "--warmup-from", 3), "--warmup-from is 3"),
                (("--warmup-from", 0.01), "expected --warmup-steps or --warmup-epochs")):
            done = self.job(2, *SMALL, "--steps", 2, *options)
            self.assertEqual((done.returncode, done.stderr.count("error:")), (2, 1), done.stderr)
            self.assertIn(expected, done.stderr)

    def test_fa_03_a_rate_too_large_ends_the_run_with_status_4_and_the_step(self):
        done = self.job(1, *SMALL, "--lr", 1e6, "--steps", 50)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, r"non-finite .* in step \d+")


if __name__ == "__main__":
    JobTest.program = sys.argv.pop(1)
    unittest.main()
