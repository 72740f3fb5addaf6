#!/usr/bin/env python3
"""Runs the program of stage 01 as a person would: exit codes, messages, files, signals.

Usage: cli_test.py PROGRAM [--simulated]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
SIMULATED = "--simulated" in sys.argv
TINY = ["--data", "synthetic", "--layers", "20-16-4", "--global-batch", "32"]


def run(*arguments, **environment):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60,
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

    def fails(self, code, *words, arguments, **environment):
        result = run(*arguments, **environment)
        self.assertEqual(result.returncode, code, result.stderr)
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        for word in words:
            self.assertIn(word, errors[0])
        self.assertNotIn("parameter checksum", result.stdout)

    def test_a_run_prints_a_table(self):
        result = run(*TINY, "--steps", "20")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = {line[:20].strip(): line[20:].strip() for line in result.stdout.splitlines()}
        self.assertEqual(rows["steps"], "20")
        self.assertLess(float(rows["last loss"]), float(rows["first loss"]))
        self.assertGreater(float(rows["test accuracy"]), 0.25)
        self.assertEqual(SIMULATED, "simulated" in rows["device"].lower())
        self.assertRegex(rows["parameter checksum"], "^[0-9a-f]{16}$")

    def test_help_and_version(self):
        for flag in ("--help", "--help-all", "--version"):
            result = run(flag)
            self.assertEqual(result.returncode, 0)
            self.assertIn("01_single_gpu", result.stdout)
            self.assertEqual(result.stderr, "")

    def test_metrics_are_json_lines_with_the_fields_of_the_format(self):
        metrics, samples = self.path("m.jsonl"), self.path("s.jsonl")
        result = run(*TINY, "--steps", "3", "--metrics", metrics, "--dump-samples", samples)
        self.assertEqual(result.returncode, 0, result.stderr)
        first, *steps, last = lines_of(metrics)
        self.assertEqual(first["event"], "run")
        self.assertEqual(first["stage"], "01_single_gpu")
        self.assertEqual(first["world_size"], 1)
        self.assertEqual(first["simulated"], SIMULATED)
        self.assertEqual(first["parameters"], 20 * 16 + 16 + 16 * 4 + 4)
        self.assertEqual(first["options"]["layers"], [20, 16, 4])
        for field in ("device", "versions", "input_mean", "input_std"):
            self.assertIn(field, first)
        self.assertEqual([step["step"] for step in steps], [1, 2, 3])
        for step in steps:
            self.assertEqual(set(step), {"event", "step", "epoch", "loss", "learning_rate",
                                         "samples", "seconds"})
            self.assertEqual(step["event"], "step")
            self.assertEqual(step["samples"], 32)
            self.assertEqual(step["learning_rate"], 0.05)
            self.assertGreater(step["loss"], 0)
            self.assertGreater(step["seconds"], 0)
        self.assertEqual(last["event"], "end")
        self.assertIn(last["parameter_checksum"], result.stdout)
        for field in ("test_accuracy", "test_loss", "samples_per_second"):
            self.assertGreater(last[field], 0)
        dumped = lines_of(samples)
        self.assertEqual([(line["step"], line["rank"]) for line in dumped], [(1, 0), (2, 0), (3, 0)])
        ids = [sample for line in dumped for sample in line["ids"]]
        self.assertEqual(len(ids), 96)
        self.assertEqual(len(set(ids)), 96)

    def test_the_same_command_twice_is_equal_to_the_bit(self):
        orders = [{}, {}]
        if SIMULATED:  # and under any schedule and order of threads
            orders += [{"SIMGPU_SCHEDULE": "eager"},
                       {"SIMGPU_SCHEDULE": "delays:3", "SIMGPU_THREAD_ORDER": "reverse"},
                       {"SIMGPU_SCHEDULE": "delays:4", "SIMGPU_THREAD_ORDER": "random:9"}]
        ends = []
        for number, environment in enumerate(orders):
            metrics = self.path(f"{number}.jsonl")
            result = run(*TINY, "--steps", "25", "--clip-norm", "0.5", "--metrics", metrics,
                         **environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            lines = lines_of(metrics)
            for line in lines:
                line.pop("seconds", None)
                line.pop("samples_per_second", None)
            ends.append(lines)
        for other in ends[1:]:
            self.assertEqual(other, ends[0])

    def test_bad_options_are_named_with_what_is_allowed(self):
        for arguments, words in (
                (["--learning"], ["--learning", "--lr"]),
                (["--lr", "fast"], ["--lr", "fast", "number"]),
                (["--lr", "-1"], ["--lr", "-1"]),
                (["--lr", "nan"], ["--lr", "nan"]),
                (["--global-batch", "0"], ["--global-batch", "0"]),
                (["--activation", "tanh"], ["--activation", "tanh", "relu", "gelu"]),
                (["--loss", "l1"], ["--loss", "l1", "cross-entropy", "mse"]),
                (["--precision", "fp8"], ["--precision", "fp8", "fp32", "fp64"]),
                (["--layers", "784"], ["--layers", "784"]),
                (["--steps"], ["--steps"])):
            with self.subTest(arguments):
                self.fails(2, *words, arguments=arguments)

    def test_data_that_is_missing_or_no_data(self):
        self.fails(3, self.path("nowhere"), arguments=["--data", self.path("nowhere")])
        self.fails(3, self.folder.name, "train-images-idx3-ubyte",
                   arguments=["--data", self.folder.name])

    def test_layers_that_do_not_fit_the_data_are_told_with_both_numbers(self):
        if not os.path.exists(os.path.join(os.environ.get("DDP_DATA_DIR", "/usr/share/datasets"),
                                           "fashion-mnist")):
            self.skipTest("Fashion-MNIST is not installed")
        self.fails(2, "--layers", "100", "784", arguments=["--layers", "100-10"])
        self.fails(2, "--layers", "11", "10", arguments=["--layers", "784-11"])

    def test_a_file_that_cannot_be_written_stops_before_training(self):
        nowhere = self.path("no/folder/m.jsonl")
        for option in ("--metrics", "--dump-samples"):
            self.fails(3, nowhere, arguments=[*TINY, "--steps", "1000000000", option, nowhere])

    def test_FA_03_numbers_that_are_not_finite(self):
        self.fails(4, "non-finite", "step", arguments=[*TINY, "--steps", "1000", "--lr", "1e6"])
        self.fails(4, "non-finite", "step 2", arguments=[*TINY, "--steps", "9"],
                   DDP_FAULT="0:2:nan")

    def test_FA_03_the_steps_before_are_in_the_metrics(self):
        metrics = self.path("m.jsonl")
        self.fails(4, "step 5", arguments=[*TINY, "--steps", "50", "--metrics", metrics],
                   DDP_FAULT="0:5:inf")
        self.assertEqual([line.get("step") for line in lines_of(metrics)], [None, 1, 2, 3, 4])

    def test_EN_03_devices(self):
        self.fails(6, "device 99 ", "visible", arguments=[*TINY, "--device", "99"])
        self.fails(6, "device -1 ", arguments=[*TINY, "--device", "-1"])
        no_device = {"SIMGPU_DEVICES": "0"} if SIMULATED else {"CUDA_VISIBLE_DEVICES": ""}
        self.fails(6, "no CUDA device is visible", "simulated", arguments=TINY, **no_device)

    def test_a_signal_ends_the_run_after_its_step_with_results(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                metrics = self.path(f"{number}.jsonl")
                process = subprocess.Popen(
                    [PROGRAM, *TINY, "--steps", "1000000000", "--metrics", metrics],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                try:
                    deadline = time.monotonic() + 30
                    while not (os.path.exists(metrics) and os.path.getsize(metrics) > 2000):
                        self.assertLess(time.monotonic(), deadline, "no step was written")
                        self.assertIsNone(process.poll())
                        time.sleep(0.02)
                    process.send_signal(number)
                    out, err = process.communicate(timeout=30)
                finally:
                    process.kill()
                    process.wait()
                self.assertEqual(process.returncode, 130, err)
                self.assertIn("interrupted", out)
                self.assertIn("test accuracy", out)
                lines = lines_of(metrics)
                self.assertEqual(lines[-1]["event"], "end")
                self.assertTrue(lines[-1]["interrupted"])
                self.assertEqual([line["step"] for line in lines[1:-1]],
                                 list(range(1, len(lines) - 1)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
