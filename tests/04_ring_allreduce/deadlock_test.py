"""The ring that locks on purpose: it locks, says so, and leaves nothing behind.

    python3 deadlock_test.py build/sim/bin/ring_deadlock
"""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SHARED_MEMORY = Path("/dev/shm")


def run(ranks, *arguments):
    """Status, output and seconds. Plain mpirun: nobody else cleans up after the program. It has a
    folder of its own: jobs that share theirs can be hurt by one that ends and removes it."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["mpirun", "--mca", "orte_tmpdir_base", folder, "--bind-to", "none", "--oversubscribe",
             "-n", str(ranks), PROGRAM, *arguments],
            env={**os.environ, **ROOT_MAY}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=30)
    return done.returncode, done.stdout, time.monotonic() - start


def our_files():
    user = os.getuid()
    return {path.name for path in SHARED_MEMORY.glob("*vader*") if path.stat().st_uid == user}


class Deadlock(unittest.TestCase):
    def test_ar_04_a_small_message_passes(self):
        for ranks in (2, 3, 4):
            status, output, _ = run(ranks, "16")
            self.assertEqual(status, 0, output)
            self.assertIn("passed: MPI_Send kept a copy", output)

    def test_ar_04_a_large_message_locks_and_is_told(self):
        circles = {2: "0 waits for 1 waits for 0",
                   3: "0 waits for 1 waits for 2 waits for 0",
                   4: "0 waits for 1 waits for 2 waits for 3 waits for 0"}
        for ranks, circle in circles.items():
            before = our_files()
            status, output, seconds = run(ranks, "16384")
            self.assertEqual(status, 0, output)
            self.assertIn(circle + "\n", output)
            self.assertIn("deadlock shown as intended", output)
            self.assertLess(seconds, 10)
            self.assertEqual(our_files() - before, set())

    def test_exercise_4_4_any_size_passes_on_any_number_of_ranks(self):
        for ranks in (1, 2, 3, 4):
            for floats in ("1012", "100000"):
                status, output, _ = run(ranks, floats, "--fixed")
                self.assertEqual(status, 0, output)
                self.assertIn("passed: somebody always receives", output)

    def test_nonsense_is_refused(self):
        for arguments in ((), ("x",), ("0",), ("12x",), ("12", "--other"), ("12", "--fixed", "x")):
            status, output, _ = run(2, *arguments)
            self.assertEqual(status, 2, output)
            self.assertIn("error: usage: ring_deadlock FLOATS [--fixed]", output)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
