"""The readers of metrics on a small run whose numbers can be checked by hand."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import metrics
import summary

RUN = {"event": "run", "stage": "01_single_gpu", "device": "Simulated GPU 0", "simulated": True}
STEPS = [
    {"event": "step", "step": 1, "epoch": 1, "loss": 3.0, "samples": 30, "seconds": 0.5},
    {"event": "step", "step": 2, "epoch": 1, "loss": 1.0, "samples": 10, "seconds": 0.25},
    {"event": "step", "step": 3, "epoch": 2, "loss": 0.5, "samples": 30, "seconds": 0.5},
]
END = {
    "event": "end",
    "test_accuracy": 0.8125,
    "test_loss": 0.5,
    "parameter_checksum": "00c0ffee",
    "samples_per_second": 12345.6,
}


class Metrics(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "metrics.jsonl"

    def write(self, *events):
        self.path.write_text("".join(json.dumps(event) + "\n" for event in events))

    def summarise(self, *options):
        """Runs summary.py; returns (exit code, what it printed)."""
        out = io.StringIO()
        with mock.patch("sys.argv", ["summary.py", str(self.path), *options]):
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                return summary.main(), out.getvalue()

    def test_the_mean_counts_samples(self):
        self.assertEqual(2.5, metrics.mean_loss(STEPS[:2]))  # (3 * 30 + 1 * 10) / 40

    def test_a_finished_run_is_summarised(self):
        self.write(RUN, *STEPS, END)
        code, text = self.summarise("--least-accuracy", "0.8")
        self.assertEqual(0, code)
        self.assertRegex(text, r"Simulated GPU 0\n")
        self.assertRegex(text, r"\b1 +2 +2\.5000 +0\.75\n")
        self.assertRegex(text, r"\b2 +1 +0\.5000 +0\.50\n")
        self.assertRegex(text, r"accuracy +0\.8125\n")
        self.assertRegex(text, r"checksum +00c0ffee\n")
        self.assertRegex(text, r"second +12,346\n")

    def test_checks_of_gradients_are_passed_over(self):
        check = {"event": "check", "step": 1, "loss_difference": 0.0, "gradient_difference": 1e-7}
        self.write(RUN, check, STEPS[0], END)
        self.assertEqual(metrics.read_metrics(self.path).steps, STEPS[:1])

    def test_too_low_an_accuracy_fails(self):
        for accuracy in (0.8, 0.1, None):
            self.write(RUN, *STEPS, {**END, "test_accuracy": accuracy})
            code, text = self.summarise("--least-accuracy", "0.8")
            self.assertEqual(1, code)
            self.assertIn("above 0.8", text)

    def test_a_regression_has_no_accuracy(self):
        self.write(RUN, *STEPS, {**END, "test_accuracy": None})
        code, text = self.summarise()
        self.assertEqual(0, code)
        self.assertRegex(text, r"accuracy +none\n")

    def test_an_unfinished_or_damaged_file_fails(self):
        for events, words in (
            ([RUN, *STEPS], "0 end events"),
            ([*STEPS, END], "0 run"),
            ([RUN, END, RUN, END], "2 run"),
            ([RUN, "text", END], ":2: not an event"),
            ([RUN, {"event": "else"}, END], ":2: not an event"),
        ):
            with self.subTest(words):
                self.write(*events)
                code, text = self.summarise()
                self.assertEqual(1, code)
                self.assertIn(words, text)
        self.path.write_text(self.path.read_text()[:-9])
        self.assertEqual(1, self.summarise()[0])
        self.path.unlink()
        self.assertIn("No such file", self.summarise()[1])

    def test_a_simulated_device_is_called_so(self):
        self.assertIn("not a real GPU", metrics.device_name({"device": "X", "simulated": True}))
        self.assertEqual("X", metrics.device_name({"device": "X", "simulated": False}))


if __name__ == "__main__":
    unittest.main()
