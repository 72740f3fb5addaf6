#!/usr/bin/env python3
"""One rank leaves out an all-reduce: the watchdog says who is missing, simulated NCCL which call.

    mismatch_test.py build/sim/bin/nccl_mismatch [TEST...]
"""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from jobs import JobTest  # noqa: E402  (after the path)


class Mismatch(JobTest):
    def test_dd_02_the_watchdog_names_the_rank_that_is_one_behind(self):
        # Four steps of three; the last rank makes one less. Whether NCCL hangs at once or adds what
        # does not belong together and hangs at the end is its affair.
        for ranks, bucket in ((2, 2), (4, 1)):
            done = self.job(ranks, bucket)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertEqual(done.stderr.count("error:"), 1, done.stderr)
            self.assertRegex(done.stderr, r"error: rank \d, step [2-4]: the all-reduce of bucket "
                                          r"[0-2] has not ended in 3\.\d s; --timeout is 3 s\n")
            enqueued = [int(n) for n in re.findall(r"has enqueued (\d+)", done.stderr)]
            self.assertEqual(enqueued, [12] * (ranks - 1) + [11])
            self.assertTrue(done.stderr.endswith(f"  missing: rank {ranks - 1}\n"), done.stderr)
            self.assertLess(done.seconds, 40)

    def test_dd_02_simulated_nccl_explains_both_sides(self):
        # The communicator's first call is its warm-up, so call 6 is bucket 1 of step 2.
        done = self.job(4, SIMGPU_NCCL="diagnose")
        self.assertEqual(done.returncode, 5, done.stderr)
        for text in ("in call 6 of", "rank 3 called ncclAllReduce(count 2000",
                     "called ncclAllReduce(count 3000"):
            self.assertIn(text, done.stderr)

    def test_one_rank_has_nobody_to_wait_for(self):
        self.assertEqual(self.job(1).returncode, 0)

    def test_nonsense_is_refused_once(self):
        for arguments in (("3",), ("x",), ("-1",), ("1", "1")):
            done = self.job(2, *arguments)
            self.assertEqual((done.returncode, done.stderr.count("error:")), (2, 1), done.stderr)
            self.assertIn("usage: nccl_mismatch [BUCKET]", done.stderr)


if __name__ == "__main__":
    JobTest.program = sys.argv.pop(1)
    unittest.main()
