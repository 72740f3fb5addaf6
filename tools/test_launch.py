"""Starts jobs of shell scripts, which MPI's launcher takes as well, and looks what is left."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import launch

LAUNCH = Path(__file__).resolve().parent / "launch.py"
SHELL = shutil.which("sh")
# What Open MPI would leave behind if it were killed.
LITTER = ('for folder in "$OMPI_MCA_btl_vader_backing_directory" "$OMPI_MCA_orte_tmpdir_base"; do '
          'touch "$folder/file"; echo "$folder" >>"$RECORD"; done; ')


def environment(**variables):
    """Ours, without a word about root."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("OMPI_", "PMIX_"))}
    return {**kept, **variables}


def job(*arguments, before=(), **variables):
    """Runs launch.py; .stdout, .stderr and .returncode are as a shell sees them."""
    return subprocess.run([*before, sys.executable, str(LAUNCH), *arguments], capture_output=True,
                          text=True, timeout=60, env=environment(**variables))


def process_with(word):
    """Whether a process has `word` in its command line."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and word.encode() in (folder / "cmdline").read_bytes():
                return True
        except OSError:
            pass
    return False


class WithoutMpirun(unittest.TestCase):
    def test_en_01_no_mpirun_is_a_failure_that_says_so(self):
        with tempfile.TemporaryDirectory() as empty:
            done = job("-n", "4", SHELL, "-c", "true", PATH=empty)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Alaunch: no mpirun on the PATH; .*openmpi-bin.*\n\Z")

    def test_wrong_arguments(self):
        for arguments in (["-n", "0", "true"], ["true"], ["-n", "2"], ["-n", "two", "true"],
                          ["-n", "1", "--timeout", "-3", "true"]):
            done = job(*arguments)
            self.assertEqual(done.returncode, 2, arguments)

    def test_root_is_allowed_only_where_the_user_is_root(self):
        allowed = {name for name in launch.environment() if name.startswith("OMPI_ALLOW_RUN")}
        self.assertEqual(len(allowed), 2 if os.geteuid() == 0 else 0)

    def test_ranks_yield_only_where_they_outnumber_the_cores(self):
        cores = len(os.sched_getaffinity(0))
        for ranks in (1, cores, cores + 1):
            wanted = launch.read_arguments(["-n", str(ranks), "true"])
            command = launch.mpirun_command("mpirun", wanted, Path("a"), Path("b"))
            self.assertEqual("mpi_yield_when_idle" in command, ranks > cores)


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
class WithMpirun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.record = Path(folder.name) / "record"  # the folders that the ranks saw
        self.record.touch()
        self.word = f"job_of_test_{os.getpid()}_{time.monotonic_ns()}"  # in every command line

    def folders(self):
        return {Path(line) for line in self.record.read_text().split("\n") if line}

    def tearDown(self):
        self.assertEqual({folder for folder in self.folders() if folder.exists()}, set())
        self.assertFalse(process_with(self.word), "a process of the job is left")

    def script(self, text, ranks=4, limit="30"):
        self.record.write_text("")
        done = job("-n", str(ranks), "--timeout", limit, "sh", "-c",
                   f"{LITTER}{text}; : {self.word}", RECORD=str(self.record))
        self.assertEqual(len(self.folders()), 2)
        return done

    def test_en_01_all_ranks_run_and_nothing_is_said(self):
        for ranks in (1, 2, 4):
            done = self.script("echo rank $OMPI_COMM_WORLD_RANK", ranks)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(sorted(done.stdout.split("\n")),
                             ["", *(f"rank {rank}" for rank in range(ranks))])
            self.assertEqual(done.stderr, "")

    def test_en_01_as_another_user(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("only root with setpriv can become another user")
        nobody = pwd.getpwnam("nobody")
        user = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
        if subprocess.run([*user, sys.executable, "-c", f"open({str(LAUNCH)!r})"],
                          capture_output=True).returncode != 0:
            self.skipTest("user nobody may not read the project or run this Python")
        done = job("-n", "4", SHELL, "-c",
                   "echo rank $OMPI_COMM_WORLD_RANK of $(id -u) $OMPI_ALLOW_RUN_AS_ROOT",
                   before=user, HOME="/nonexistent")
        self.assertEqual(done.stderr, "")
        self.assertEqual(sorted(done.stdout.split()), sorted(
            f"rank {rank} of {nobody.pw_uid}" .split()[index]
            for rank in range(4) for index in range(4)))
        self.assertEqual(done.returncode, 0)

    def test_arguments_and_settings_are_passed_on(self):
        done = job("-n", "1", "--mca", "btl", "tcp,self", "sh", "-c",
                   'echo "$OMPI_MCA_btl|$1|$2"', "sh", "--timeout", "a b")
        self.assertEqual(done.stdout, "tcp,self|--timeout|a b\n")

    def test_the_status_is_that_of_the_rank_that_failed(self):
        for status in (1, 6, 77):
            done = self.script(f"[ $OMPI_COMM_WORLD_RANK != 2 ] || exit {status}")
            self.assertEqual(done.returncode, status)
            self.assertEqual(done.stderr, "")

    def test_fa_01_c_a_killed_rank_ends_the_job(self):
        begin = time.monotonic()
        done = self.script("[ $OMPI_COMM_WORLD_RANK != 2 ] || kill -9 $$; sleep 300")
        self.assertEqual(done.returncode, 137)
        self.assertIn("ended by SIGKILL", done.stderr)
        self.assertLess(time.monotonic() - begin, 10)

    def test_the_time_limit_ends_everything(self):
        # Each rank ignores the polite signal and has a child that left its session.
        done = self.script("trap '' TERM; setsid sh -c 'sleep 300; : '$RECORD & "
                           "while :; do sleep 300; done", limit="2")
        self.assertEqual(done.returncode, launch.TIMED_OUT)
        self.assertEqual(done.stderr, "launch: sh: not done after 2 s; the job is ended\n")
        self.assertFalse(process_with(str(self.record)))

    def start(self, text):
        """A job of two ranks that have said `ready`."""
        process = subprocess.Popen(
            [sys.executable, str(LAUNCH), "-n", "2", "--timeout", "30", "sh", "-c",
             f"{LITTER}{text}; echo ready; while :; do sleep 0.1; : {self.word}; done"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(RECORD=str(self.record)))
        self.addCleanup(process.kill)
        for _ in range(2):
            self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_a_signal_asks_the_ranks_to_stop(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("trap 'sleep 2; echo stopped; exit 130' INT")
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
            self.assertEqual(out, "stopped\n" * 2)
            self.assertEqual((process.returncode, err), (130, ""))

    def test_a_second_signal_ends_the_job(self):
        process = self.start("trap '' INT")
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        self.assertNotEqual(process.returncode, 0)

    def test_the_job_ends_with_its_launcher(self):
        process = self.start("true")
        process.kill()
        process.communicate(timeout=20)
        deadline = time.monotonic() + 10
        while process_with(self.word) and time.monotonic() < deadline:
            time.sleep(0.05)
        for folder in self.folders():  # nobody was left to remove them
            shutil.rmtree(folder)


if __name__ == "__main__":
    unittest.main()
