#!/usr/bin/env python3
"""A small sweep: what it runs, keeps and prints; a table of predictions; and the figure.

    sweep_test.py build/sim/bin/07_scaling_rules [TEST...]
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import check_predictions  # noqa: E402  (after the path)
import sweep  # noqa: E402

PROGRAM = None
# Ten thousand samples of 20 numbers. At 1e6 times the rate nothing stays finite.
SMALL = ("--data", "synthetic", "--layers", "20-16-4", "--epochs", "2", "--base-lr", "0.01",
         "--base-batch", "64")
WILD = (*SMALL[:-3], "1e6", *SMALL[-2:])


def result(batch, rule, seed, accuracy=None, diverged=None, setting=SMALL):
    return {"batch": batch, "rule": rule, "seed": seed, "accuracy": accuracy, "diverged": diverged,
            "early_loss": accuracy, "setting": " ".join(setting)}


class SweepTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "runs", "results.jsonl")
        self.said = []

    def sweep(self, wanted, setting=SMALL, program=None):
        return sweep.sweep(program or PROGRAM, self.path, wanted, 2, setting, self.said.append)


class Sweep(SweepTest):
    def test_every_run_has_its_batch_rule_and_seed_and_is_not_run_twice(self):
        wanted = list(sweep.points((500, 2000), (1, 2), ("none", "linear")))
        self.assertEqual(len(wanted), 2 * (1 + 2 * 2))
        first = self.sweep(wanted[:4])
        results = self.sweep(wanted)
        self.assertIn("4 of 10 runs are in", self.said[4])
        self.assertEqual(set(results), set(wanted))
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        self.assertEqual(len(lines), 10)
        for point in wanted[:4]:
            self.assertEqual(results[point], first[point])
        for point, found in results.items():
            self.assertEqual(found["steps"], 2 * -(-10000 // point.batch))
            self.assertTrue(0.25 < found["accuracy"] <= 1)
        better = [results[2000, rule, 1]["early_loss"] for rule in ("linear", "none")]
        self.assertLess(*better)  # 10 updates at 31 times the rate learn more
        table = sweep.table(results, SMALL)
        self.assertRegex(table, r"\n +64  0\.\d{4} ±0\.\d{4}\n +500  0\.\d{4} ±0\.\d{4} +0\.\d{4} ±")
        self.assertIn("simulated", table)

    def test_a_run_that_diverges_is_a_result_with_its_step(self):
        point = sweep.Point(500, "none", 1)
        found = self.sweep([point], WILD)[point]
        self.assertIsNone(found["accuracy"])
        self.assertTrue(1 <= found["diverged"] <= 40)
        self.assertIn("diverged at step", self.said[0])
        self.assertIn("1 diverged, step", sweep.table({point: found}, WILD))

    def test_any_other_failure_is_one(self):
        with self.assertRaisesRegex(sweep.SweepError, "status 2"):
            self.sweep([sweep.Point(500, "none", 1)], (*SMALL, "--warmup-from", "1"))
        with self.assertRaises(sweep.SweepError):
            self.sweep([sweep.Point(500, "none", 1)], program="/bin/false")
        self.assertEqual(self.path.read_text(), "")

    def test_results_of_another_setting_are_kept_and_not_taken(self):
        self.path.parent.mkdir()
        other = json.dumps(result(500, "none", 1, 0.5, setting=WILD)) + "\n"
        self.path.write_text(other + '{"batch": 500, "ru')  # and a line that was never finished
        self.assertEqual(sweep.read_results(self.path, SMALL), {})
        self.assertEqual(self.path.read_text(), other)
        self.path.write_text("nonsense\n")
        with self.assertRaisesRegex(sweep.SweepError, "results.jsonl:1: not a result"):
            sweep.read_results(self.path, SMALL)


class Table(unittest.TestCase):
    def test_mean_spread_and_which_batches_are_as_good(self):
        results = {sweep.Point(r["batch"], r["rule"], r["seed"]): r for r in (
            result(64, "none", 1, 0.88), result(64, "none", 2, 0.89),  # mean 0.885
            result(256, "none", 1, 0.87), result(256, "none", 2, 0.88),
            result(256, "linear", 1, 0.881), result(256, "linear", 2, 0.88),  # 0.8805
            result(1024, "linear", 1, 0.9), result(1024, "linear", 2, None, 7))}
        table = sweep.table(results, SMALL)
        self.assertIn("64  0.8850 ±0.0050", table)
        self.assertRegex(table, r"256  0\.8750 ±0\.0050 +0\.8805 ±0\.0005")
        self.assertRegex(table, r"1024 +0\.9000 ±0\.0000, 1 diverged, step 7")
        self.assertRegex(table, r"none +no other batch\n")
        self.assertRegex(table, r"linear +256\n")  # not 1024, where a seed is lost


class Predictions(SweepTest):
    HEAD = "| batch | rule | predicted | observed |\n|---|---|---|---|\n"

    def check(self, *rows, setting=SMALL):
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(self.HEAD + "".join(f"| {row} |\n" for row in rows))
        return check_predictions.check(PROGRAM, self.path, setting)

    def test_a_table_that_reproduces_is_accepted_and_another_is_not(self):
        seen = {batch: sweep.train(PROGRAM, sweep.Point(batch, "linear", 1), SMALL)
                for batch in (500, 2000, 5000)}
        rows = [f"{batch} | linear | better | {sweep.outcome(found)}" for batch, found in seen.items()]
        self.assertEqual(self.check(*rows), [])
        wrong = self.check(*rows[:2], "5000 | linear | worse | accuracy 0.1234")
        self.assertEqual(len(wrong), 1)
        self.assertIn("batch 5000, linear: the table has accuracy 0.1234, the run", wrong[0])
        wrong = self.check(*rows[:2], "5000 | linear | worse | diverged at step 3")
        self.assertIn("diverged at step 3, the run accuracy", wrong[0])

    def test_predictions_that_are_missing_are_told(self):
        self.assertIn("three batches", self.check("500 | linear | x | accuracy 0.9")[0])
        wrong = self.check("500 | linear | | accuracy 0.9", "2000 | cubic | x | accuracy 0.9",
                           "5000 | linear | x | good")
        self.assertIn("no prediction", wrong[0])
        self.assertIn("rule 'cubic'; expected one of none, sqrt, linear, warm-up", wrong[1])
        self.assertIn("observed 'good'; expected", wrong[2])


class Figure(SweepTest):
    @unittest.skipUnless(importlib.util.find_spec("matplotlib") or Path("/usr/bin/python3").exists(),
                         "no matplotlib")
    def test_the_figure_is_drawn_also_with_runs_that_diverged(self):
        python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
        if subprocess.run([python, "-c", "import matplotlib"], capture_output=True).returncode:
            self.skipTest("no matplotlib")
        self.path.parent.mkdir()
        setting = sweep.SETTING
        lines = [result(64, "none", 1, 0.88, setting=setting),
                 result(256, "linear", 1, 0.87, setting=setting),
                 result(1024, "linear", 1, None, 7, setting=setting)]
        self.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        figure = self.path.with_suffix(".png")
        subprocess.run([python, str(TOOLS / "plot_scaling.py"), str(self.path), str(figure)], check=True,
                       timeout=100, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(figure.read_bytes()[:4], b"\x89PNG")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
