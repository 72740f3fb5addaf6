"""Starts jobs of ranks that fail, and looks what a shell sees and what is left of them.

    mpi_jobs_test.py PROGRAM      the program of fake_ranks.cpp
"""

import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

LAUNCH = Path(__file__).resolve().parents[2] / "tools" / "launch.py"
PROGRAM = None
WARNING = re.compile(r"warning: \d+ ranks on \d+ cores: time means nothing\n")


# A job that hangs, hangs for 300 s; one that ends as it should takes two or three, or a multiple of
# that on a busy machine. The limit's exit code, 124, fails every test here.
LIMIT = "60"


def command(*arguments, ranks=4):
    return [sys.executable, str(LAUNCH), "-n", str(ranks), "--timeout", LIMIT, PROGRAM, "--data",
            "synthetic", *arguments]


class Jobs(unittest.TestCase):
    def setUp(self):
        # Also in the environment of every process of the job.
        self.word = f"DDP_TEST_WORD={os.getpid()}.{time.monotonic_ns()}"
        self.environment = {**os.environ, **dict([self.word.split("=")])}
        self.jobs = []  # the processes of launch.py, after which it calls its folders

    def tearDown(self):
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and int(folder.name) != os.getpid():
                    self.assertNotIn(self.word.encode(), (folder / "environ").read_bytes(),
                                     f"process {folder.name} of the job is left")
            except OSError:
                pass
        for job in self.jobs:
            self.assertEqual(list(Path("/dev/shm").glob(f"ddp_job.{job}.*")), [])

    def popen(self, *arguments, ranks=4, **variables):
        process = subprocess.Popen(command(*arguments, ranks=ranks), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**self.environment, **variables})
        self.jobs.append(process.pid)
        self.addCleanup(process.kill)
        return process

    def run_job(self, *arguments, ranks=4, **variables):
        """.stderr is without the warning about cores."""
        process = self.popen(*arguments, ranks=ranks, **variables)
        out, err = process.communicate(timeout=120)
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        done.stderr = WARNING.sub("", done.stderr)
        return done

    def ends(self, done, code, stderr):
        self.assertEqual((done.returncode, done.stderr, done.stdout), (code, stderr, ""))

    def test_a_good_run_prints_one_table_and_gives_each_rank_its_device(self):
        for ranks in (1, 2, 4):
            done = self.run_job(ranks=ranks)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            devices = "".join(f"; device {rank}" for rank in range(ranks))
            self.assertIn(f"device               device 0{devices}\n", done.stdout)
            self.assertEqual(done.stdout.count("parameter checksum"), 1)

    def test_fa_01_a_a_rank_that_throws(self):
        self.ends(self.run_job(DDP_FAULT="2:3:throw"), 1,
                  "error: rank 2, step 3: DDP_FAULT throws\n")

    def test_fa_01_b_a_rank_with_a_bad_file(self):
        self.ends(self.run_job(DDP_FAULT="2:3:return"), 3,
                  "error: rank 2, step 3: DDP_FAULT takes the path of a file that cannot be read\n")

    def test_fa_01_c_a_killed_rank(self):
        done = self.run_job(DDP_FAULT="2:3:kill")
        self.assertEqual((done.returncode, done.stdout), (137, ""))
        for rank in (0, 1, 3):
            self.assertRegex(done.stderr,
                             rf"(?m)^rank {rank}, step 3: ended by SIGTERM, waiting for [\d.]+ s "
                             r"(in an all-gather|to (send|receive) \d+ bytes (to|from) rank \d)$")
        self.assertIn("a rank was ended by SIGKILL", done.stderr)

    def test_fa_01_d_a_rank_that_stalls(self):
        done = self.run_job("--timeout", "2", DDP_FAULT="2:3:stall")
        self.assertEqual((done.returncode, done.stdout), (5, ""))
        self.assertRegex(done.stderr, r"\Aerror: rank [013], step 3: waiting for 2\.\d s "
                                      r"in an all-gather; --timeout is 2 s\n")
        self.assertRegex(done.stderr, r"(?m)^  rank 2: step 3, in no call for \d\.\d s$")
        self.assertRegex(done.stderr, r"(?m)^  missing: rank 2; ")
        self.assertEqual(done.stderr.count("error:"), 1)

    def test_ar_04_a_ring_of_blocking_sends_is_shown_as_a_deadlock(self):
        for ranks, cycle in ((2, "0 waits for 1 waits for 0"),
                             (4, "0 waits for 1 waits for 2 waits for 3 waits for 0")):
            done = self.run_job("--seed", "6", "--timeout", "2", ranks=ranks)
            self.assertEqual(done.returncode, 5)
            self.assertIn(" s to send 1048576 bytes to rank 1\n", done.stderr)
            self.assertTrue(done.stderr.endswith(f"  deadlock: {cycle}\n"), done.stderr)

    def test_an_error_that_all_know_is_told_once_by_rank_0(self):
        self.ends(self.run_job("--seed", "2"), 3, "error: all ranks know of a bad file\n")

    def test_an_error_that_all_have_is_told_once(self):
        done = self.run_job("--seed", "3")
        self.assertRegex(done.stderr,
                         r"\Aerror: rank \d, step 2: a bad file that every rank has found\n\Z")
        self.assertEqual(done.returncode, 3)

    def test_nothing_is_unwound(self):
        self.ends(self.run_job("--seed", "4"), 4, "error: rank 3, step 2: a non-finite loss\n")

    def test_an_exception_of_another_thread(self):
        self.ends(self.run_job("--seed", "5"), 1,
                  "error: rank 3, step 2: thrown by another thread\n")

    def test_options_and_variables_are_refused_once_before_anything_starts(self):
        done = self.run_job("--lr", "fast")
        self.assertEqual((done.returncode, done.stderr.count("error:")), (2, 1))
        self.assertTrue(done.stderr.startswith("error: --lr is 'fast'"), done.stderr)
        done = self.run_job(SIMGPU_LINK="1")
        self.assertEqual((done.returncode, done.stderr.count("error:")), (2, 1))
        self.assertTrue(done.stderr.startswith("error: SIMGPU_LINK is '1'"), done.stderr)
        done = self.run_job("--device", "1")
        self.assertEqual((done.returncode, done.stderr.count("error:")), (2, 1))
        self.assertIn("--device is for one rank", done.stderr)
        done = self.run_job("--help")
        self.assertEqual((done.returncode, done.stderr, done.stdout.count("Usage")), (0, "", 1))

    def test_en_03_too_few_devices_are_refused_once(self):
        for devices, words in (("2", ["for ranks 2 and 3:", "found 2", "-n 2"]),
                               ("1", ["ranks 0, 1, 2 and 3 would use one GPU", "found 1"]),
                               ("0", ["rank 0 on host", "no CUDA device is visible"])):
            done = self.run_job(SIMGPU_DEVICES=devices)
            self.assertEqual((done.returncode, done.stderr.count("error:")), (6, 1))
            for word in words:
                self.assertIn(word, done.stderr)

    def test_few_cores_are_warned_of_once(self):
        done = subprocess.run(command(ranks=len(os.sched_getaffinity(0)) + 1), capture_output=True,
                              text=True, timeout=120, env=self.environment)
        self.assertEqual(len(WARNING.findall(done.stderr)), 1)
        self.assertEqual(done.stderr.count("warning"), 1)
        self.assertNotIn("warning", self.run_job("--quiet").stderr)

    def start(self, *arguments):
        """A job of two ranks that is under way."""
        process = self.popen(*arguments, ranks=2)
        self.assertEqual(process.stdout.readline(), "under way\n")
        return process

    def ranks_of(self, launcher):
        children = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                except OSError:
                    continue
                children.setdefault(int(parent), []).append(int(folder.name))
        (mpirun,) = children[launcher]
        return children[mpirun]

    def test_a_signal_to_the_launcher_stops_all_after_a_step(self):
        process = self.start("--seed", "8", "--steps", "1000")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(out.count("parameter checksum"), 1)
        self.assertIn("(interrupted)", out)
        self.assertEqual(WARNING.sub("", err), "")

    def test_a_sigterm_stops_a_healthy_job_after_a_step(self):
        process = self.start("--seed", "8", "--steps", "1000")
        os.kill(self.ranks_of(process.pid)[0], signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual(WARNING.sub("", err), "")
        self.assertEqual(process.returncode, 130)
        self.assertIn("(interrupted)", out)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
