"""Runs tests that fail on purpose, on three ranks, and reads what the test program says.

    mpi_main_test.py PROGRAM      the program of mpi_planted_failures.cpp
"""

import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

LAUNCH = Path(__file__).resolve().parents[2] / "tools" / "launch.py"
PROGRAM = None


def run(*arguments, limit=3, **variables):
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(LAUNCH), "-n", "3", "--timeout", "60", PROGRAM, *arguments],
        capture_output=True, text=True, timeout=90,
        env={**os.environ, "DDP_TEST_TIME_LIMIT": str(limit), **variables})
    done.seconds = time.monotonic() - begin
    return done


class Main(unittest.TestCase):
    def test_en_01_a_pass_is_one_line_that_names_all_ranks(self):
        done = run("nothing*")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "ranks 0 to 2: all 2 tests passed, 3 assertions\n")

    def test_no_test_is_a_failure(self):
        done = run("no such test")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no test ran", done.stdout)

    def test_a_failed_check_names_the_rank_and_the_others_go_on(self):
        done = run("a check fails on rank 1,nothing*")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rank 1:   CHECK_FALSE( on_rank(1) )", done.stdout)
        self.assertIn("FAILED on rank 1: a check fails on rank 1\n", done.stdout)
        self.assertIn("ranks 0 to 2: 1 of 3 tests failed\n", done.stdout)
        self.assertNotRegex(done.stdout, "(?m)^rank [02]:")

    def test_an_exception_on_one_rank_is_a_failed_test(self):
        done = run("rank 1 throws\\, nobody waits,nothing*")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rank 1:   thrown on purpose", done.stdout)
        self.assertIn("1 of 3 tests failed", done.stdout)

    def test_a_rank_that_left_a_test_ends_the_job_with_its_message(self):
        for name, message in (("a requirement fails on rank 2\\, the others wait",
                               "rank 2:   REQUIRE_FALSE( on_rank(2) )"),
                              ("rank 1 throws\\, the others wait", "rank 1:   thrown on purpose")):
            done = run(name, limit=30)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn(message, done.stdout)
            self.assertIn("which this rank has left", done.stderr)
            self.assertRegex(done.stderr, r"  rank 0: step 0, waiting for [\d.]+ s in a barrier\n")
            self.assertLess(done.seconds, 25)  # it did not wait for the limit

    def test_an_unread_message_is_a_failure_that_names_it(self):
        done = run("a message is left unread,nothing*")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rank 2: test 'a message is left unread' left a message unread: "
                      "from rank 0, tag 0, 40 bytes\n", done.stdout)
        self.assertIn("1 of 3 tests failed", done.stdout)

    def test_a_cycle_is_shown(self):
        done = run("a cycle")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("is not done after 3 s"), 1)
        self.assertIn("  rank 1: step 0, waiting for 3.", done.stderr)
        self.assertIn(" s to receive 4 bytes from rank 2\n", done.stderr)
        self.assertIn("  deadlock: 0 waits for 1 waits for 2 waits for 0\n", done.stderr)

    def test_a_missing_rank_is_named(self):
        done = run("rank 1 does not come")
        self.assertEqual(done.returncode, 1)
        self.assertIn("test 'rank 1 does not come' is not done after 3 s\n", done.stderr)
        self.assertIn("  missing: rank 1; others wait for it, and it is in no call\n", done.stderr)
        self.assertIn("  rank 1: step 3, in no call so far\n", done.stderr)
        self.assertLess(done.seconds, 30)

    def test_the_first_failure_stops_where_that_is_asked_for(self):
        done = run("a check fails on rank 1,nothing*", DDP_STOP_AT_FIRST_FAILURE="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED on rank 1", done.stdout)
        self.assertNotIn("tests failed", done.stdout)

    def test_tests_are_listed_once(self):
        done = run("--list-tests")
        self.assertEqual(done.stdout.count("a cycle"), 1)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
