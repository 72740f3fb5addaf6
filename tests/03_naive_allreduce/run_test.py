#!/usr/bin/env python3
"""Whole runs of several ranks, as a person starts them.

    run_test.py PROGRAM ONE_GPU [OPTION...] [// TEST...]

PROGRAM is a stage's from 03 on, ONE_GPU that of stage 02; the options go to every run of PROGRAM. The
tests are CLASS or CLASS.TEST, all where none is named.
"""

import json
import os
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest, read_tensors, write_images  # noqa: E402  (after the path)

ONE_GPU = None
SMALL = ("--data", "synthetic", "--layers", "20-16-4", "--quiet")


class RankTest(JobTest):
    def one_gpu(self, *options):
        program, self.program = self.program, ONE_GPU
        mine, self.options = self.options, ()
        try:
            return self.metrics(None, *options)
        finally:
            self.program, self.options = program, mine


class Alone(RankTest):
    def test_a_rank_alone_needs_no_launcher_no_daemon_and_no_folder(self):
        done = self.job(None, *SMALL, "--steps", 2, PATH="/nowhere",
                        OMPI_MCA_orte_tmpdir_base="/nowhere")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Sharing(RankTest):
    def test_a_last_batch_with_fewer_samples_than_ranks(self):
        # 10,000 samples by 3,333 leave one: ranks 1, 2 and 3 have none.
        options = (*SMALL, "--global-batch", 3333, "--steps", 8, "--precision", "fp64")
        expected = [step["loss"] for step in self.one_gpu(*options)["step"]]
        for ranks in (1, 2, 3, 4):
            self.assert_close(self.losses(ranks, *options, "--check-replicas", 1), expected, 1e-12)

    def test_sh_02_b_three_samples_and_seven_ranks(self):
        data = write_images(self.folder / "data", [[9, 200], [200, 9], [9, 150]], [0, 1, 0])
        options = ("--data", data, "--layers", "2-3-2", "--quiet", "--steps", 3, "--precision", "fp64")
        expected = [step["loss"] for step in self.one_gpu(*options)["step"]]
        self.assert_close(self.losses(7, *options), expected, 1e-12)

    def test_sh_02_c_seventeen_samples_on_two_ranks_by_one_are_nine_steps(self):
        data = write_images(self.folder / "data", [[i, 255 - i] for i in range(17)],
                            [i % 2 for i in range(17)])
        events = self.metrics(2, "--data", data, "--layers", "2-3-2", "--quiet", "--global-batch",
                              2, "--micro-batch", 1, "--epochs", 1)
        self.assertEqual([step["samples"] for step in events["step"]], [2] * 8 + [1])

    def test_the_ranks_share_out_each_batch_without_loss_or_repeat(self):
        path = self.folder / "samples.jsonl"
        for ranks in (1, 3, 4):
            self.metrics(ranks, *SMALL, "--global-batch", 1000, "--micro-batch", 70, "--steps", 10,
                         "--dump-samples", path)
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            self.assertEqual([(line["step"], line["rank"]) for line in lines],
                             [(s, r) for s in range(1, 11) for r in range(ranks)])
            self.assertEqual(sorted(i for line in lines for i in line["ids"]), list(range(10000)))

    def test_ga_03_the_same_samples_however_they_are_cut(self):
        rows = []  # losses and weights of each row
        for micro, ranks in ((16, 1), (8, 1), (1, 1), (8, 2), (4, 2), (4, 4), (2, 4), (1, 4)):
            path = self.folder / "weights.safetensors"
            losses = self.losses(ranks, "--quiet", "--layers", "784-64-10", "--global-batch", 16,
                                 "--steps", 5, "--micro-batch", micro, "--save", path)
            self.assertEqual(len(losses), 5)
            rows.append((losses, read_tensors(path)[1]))
        for losses, weights in rows[1:]:
            self.assert_close(losses, rows[0][0], 1e-5)
            for name, values in weights.items():
                first = rows[0][1][name]
                norm = sum(x * x for x in first) ** 0.5
                gap = sum((a - b) ** 2 for a, b in zip(values, first)) ** 0.5
                self.assertLessEqual(gap, 1e-5 * norm, name)

    def test_the_same_command_twice_gives_the_same_bits(self):
        options = (*SMALL, "--global-batch", 300, "--steps", 40, "--clip-norm", 1)
        first, second = (self.metrics(3, *options) for _ in range(2))
        for events in (first, second):
            for step in events["step"]:
                del step["seconds"]
            del events["end"][0]["samples_per_second"]
        self.assertEqual(first, second)

    def test_the_orders_of_the_simulator_change_no_bit(self):
        options = (*SMALL, "--global-batch", 300, "--steps", 12)
        expected = self.metrics(2, *options)["end"][0]["parameter_checksum"]
        for variables in ({"SIMGPU_SCHEDULE": "eager"}, {"SIMGPU_SCHEDULE": "delays:3"},
                          {"SIMGPU_THREAD_ORDER": "random:4"}):
            found = self.metrics(2, *options, **variables)["end"][0]["parameter_checksum"]
            self.assertEqual(found, expected, variables)

    def test_host_and_device_buffers_give_the_same_bits(self):
        options = (*SMALL, "--global-batch", 300, "--steps", 12)
        host = self.metrics(3, *options, "--mpi-buffers", "host")
        if not host["run"][0]["simulated"]:
            self.skipTest("device buffers need an MPI library that knows CUDA")
        device = self.metrics(3, *options, "--mpi-buffers", "device")
        self.assertEqual(host["end"][0]["parameter_checksum"],
                         device["end"][0]["parameter_checksum"])

    def test_without_the_broadcast_the_losses_are_others(self):
        options = (*SMALL, "--global-batch", 300, "--steps", 5)
        self.assertNotEqual(self.losses(2, *options), self.losses(2, *options, "--no-broadcast"))


class Failures(RankTest):
    options = ()

    def fails(self, done, code, *texts):
        self.assertEqual(done.returncode, code, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
        self.assertEqual(len(errors), 1, done.stderr)
        for text in texts:
            self.assertIn(text, errors[0])
        self.assertLess(done.seconds, 40)  # on a busy machine; without the rule it is for ever

    def test_fa_01_a_rank_that_throws_or_finds_a_bad_file(self):
        options = (*SMALL, "--steps", 200)
        self.fails(self.job(4, *options, DDP_FAULT="2:3:throw"), 1, "rank 2", "step 3", "throws")
        self.fails(self.job(4, *options, DDP_FAULT="2:3:return"), 3, "rank 2", "step 3",
                   "cannot be read")

    def test_fa_01_c_a_rank_that_is_killed(self):
        done = self.job(4, *SMALL, "--steps", 200, DDP_FAULT="2:3:kill")
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertLess(done.seconds, 40)

    def test_fa_01_d_a_rank_that_stalls(self):
        done = self.job(4, *SMALL, "--steps", 200, "--timeout", 2, DDP_FAULT="2:3:stall")
        self.fails(done, 5, "step ", "for 2.")
        self.assertIn("rank 2", done.stderr)

    def test_fa_03_a_number_that_is_not_finite_on_one_rank(self):
        for kind in ("nan", "inf"):
            path = self.folder / "metrics.jsonl"
            done = self.job(2, *SMALL, "--steps", 200, "--metrics", path, DDP_FAULT=f"1:2:{kind}")
            self.fails(done, 4, "non-finite", "in step 2 on rank 1")
            self.assertEqual([step["step"] for step in self.events(path)["step"]], [1])

    def test_fa_03_b_a_rate_of_a_million(self):
        self.fails(self.job(2, *SMALL, "--steps", 200, "--lr", "1e6"), 4, "non-finite", "step ")

    def test_da_01_a_data_set_that_is_not_there_is_told_once(self):
        self.fails(self.job(2, "--data", self.folder / "nowhere", "--quiet"), 3, "nowhere")

    def test_da_03_a_label_out_of_range(self):
        pixels, labels = [[i, 255 - i] for i in range(100)], [i % 10 for i in range(100)]
        for wrong in (10, 255):
            labels[57] = wrong
            data = write_images(self.folder / "data", pixels, labels)
            self.fails(self.job(2, "--data", data, "--layers", "2-10", "--quiet"), 3, "57",
                       str(wrong), "0..9")

    def test_a_bad_option_is_told_once(self):
        for wrong in (("--micro-batch", "0"), ("--allreduce", "star"), ("--timeout", "-1"),
                      ("--check-replicas", "x"), ("--nonsense",)):
            self.fails(self.job(2, *SMALL, *wrong), 2, wrong[0])
        self.fails(self.job(3, *SMALL, "--accumulate", "pairwise", "--micro-batch", 64), 2,
                   "pairwise", "not 3")

    def test_en_03_fewer_devices_than_ranks(self):
        self.fails(self.job(4, *SMALL, SIMGPU_DEVICES="3"), 6, "4", "3")
        self.fails(self.job(2, *SMALL, SIMGPU_DEVICES="0"), 6, "no CUDA device is visible")

    def test_a_signal_stops_all_ranks_after_one_step(self):
        path = self.folder / "metrics.jsonl"
        process = self.start(3, *SMALL, "--steps", 2_000_000, "--metrics", path)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (path.exists() and
                                                   path.read_bytes().count(b"\n") > 20):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        events = self.events(path)
        self.assertTrue(events["end"][0]["interrupted"])
        steps = [step["step"] for step in events["step"]]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertLess(len(steps), 2_000_000)


class Checkpoints(RankTest):
    def test_ck_01_one_file_complete_before_any_rank_goes_on(self):
        files = []
        for attempt in ("first", "second"):
            path = self.folder / attempt / "missing" / "state.safetensors"
            variables = {"DDP_FAULT": "0:5:delay-ms:1000"} if attempt == "first" else {}
            events = self.metrics(4, *SMALL, "--global-batch", 300, "--steps", 8, "--save", path,
                                  "--save-every", 5, **variables)
            self.assertEqual(len(events["step"]), 8)
            self.assertEqual(os.listdir(path.parent), [path.name])
            files.append(path.read_bytes())
        self.assertEqual(files[0], files[1])

    def test_ck_05_a_resumed_run_is_a_continuation_on_any_number_of_ranks(self):
        options = (*SMALL, "--global-batch", 300, "--precision", "fp64")
        path = self.folder / "state.safetensors"
        whole = self.metrics(2, *options, "--steps", 10)
        self.metrics(2, *options, "--steps", 5, "--save", path)
        rest = self.metrics(2, *options, "--steps", 10, "--resume", path)
        losses = [step["loss"] for step in whole["step"]]
        self.assertEqual([step["loss"] for step in rest["step"]], losses[5:])
        self.assertEqual(rest["end"][0]["parameter_checksum"],
                         whole["end"][0]["parameter_checksum"])
        for ranks in (1, 3, 4):
            self.assert_close(self.losses(ranks, *options, "--steps", 10, "--resume", path),
                              losses[5:], 1e-12)

    def test_ck_03_a_damaged_file_ends_all_ranks_with_one_message(self):
        path = self.folder / "state.safetensors"
        self.metrics(2, *SMALL, "--steps", 2, "--save", path)
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[-9] ^= 1
        damaged = {"half": whole[:len(whole) // 2], "nothing": b"", "flipped": bytes(flipped),
                   "longer": whole + b"x"}
        for ranks in (1, 4):
            for name, data in damaged.items():
                bad = self.folder / name
                bad.write_bytes(data)
                done = self.job(ranks, *SMALL, "--steps", 4, "--resume", bad)
                self.assertEqual((done.returncode, done.stderr.count("error:")), (3, 1), name)
                self.assertIn(str(bad), done.stderr)
            done = self.job(ranks, *SMALL, "--steps", 4, "--resume", self.folder / "missing")
            self.assertEqual((done.returncode, done.stderr.count("error:")), (3, 1))
            other = self.job(ranks, "--data", "synthetic", "--layers", "20-17-4", "--quiet",
                             "--steps", 4, "--resume", path)
            self.assertEqual((other.returncode, other.stderr.count("error:")), (3, 1))
            self.assertIn("(16, 20)", other.stderr)
            self.assertIn("(17, 20)", other.stderr)


if __name__ == "__main__":
    words = [*sys.argv[1:], "//"]
    JobTest.program, ONE_GPU, *RankTest.options = words[:words.index("//")]
    unittest.main(argv=[sys.argv[0], *words[words.index("//") + 1:-1]])
