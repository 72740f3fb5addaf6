"""What ring_steps records is what happens, and what plot_ring.py draws.

    python3 ring_steps_test.py build/sim/bin/ring_steps
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"

# By hand, from the table in ring_allreduce.hpp: [rank][chunk], rank r's term is bit r.
THREE_RANKS = [
    [[1, 1, 1], [2, 2, 2], [4, 4, 4]],
    [[1, 1, 5], [3, 2, 2], [4, 6, 4]],
    [[1, 7, 5], [3, 2, 7], [7, 6, 4]],
    [[7, 7, 5], [3, 7, 7], [7, 6, 7]],
    [[7, 7, 7], [7, 7, 7], [7, 7, 7]],
]
# Of the same table: the chunk that each rank sends in each step.
THREE_SEND = [[0, 1, 2], [2, 0, 1], [1, 2, 0], [0, 1, 2]]
GRADIENT = 4 * 535818  # bytes; 3 divides the elements


def run(ranks, *arguments):
    return subprocess.run([sys.executable, TOOLS / "launch.py", "-n", str(ranks), "--timeout", "60",
                           PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=90, check=False)


class RingSteps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "ring.json"

    def test_each_step_on_three_ranks(self):
        done = run(3, "--json", str(self.file))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("reduce-scatter 1  0   012 02     01  1   012    012 12  2 ", done.stdout)
        record = json.loads(self.file.read_text(encoding="utf-8"))
        self.assertEqual([row["bits"] for row in record["steps"]], THREE_RANKS)
        messages = [row["messages"] for row in record["steps"][1:]]
        self.assertEqual([[m["chunk"] for m in row] for row in messages], THREE_SEND)
        self.assertEqual([[m["to"] for m in row] for row in messages], [[1, 2, 0]] * 4)
        self.assertEqual(record["bytes_sent"]["naive"], [2 * GRADIENT, GRADIENT, GRADIENT])
        self.assertEqual(record["bytes_sent"]["ring"], [4 * GRADIENT // 3] * 3)

    def test_a_slow_rank_is_late_in_each_step_and_its_neighbour_waits(self):
        done = run(2, "--json", str(self.file), "--slow", "1:30")
        self.assertEqual(done.returncode, 0, done.stdout)
        record = json.loads(self.file.read_text(encoding="utf-8"))
        self.assertEqual(record["slow"], {"rank": 1, "ms": 30})
        for index, row in enumerate(record["steps"][1:], 1):
            neighbour, slow = row["messages"]
            self.assertGreaterEqual(slow["begin_ms"], 30 * index)
            self.assertGreaterEqual(neighbour["end_ms"], 30 * index)

    def test_it_can_be_drawn(self):
        if subprocess.run([sys.executable, "-c", "import matplotlib"], stderr=subprocess.DEVNULL,
                          check=False).returncode != 0:
            self.skipTest("no matplotlib")
        picture = self.file.with_suffix(".png")
        for ranks, status in ((2, 1), (4, 0)):  # the picture is one of four ranks
            self.assertEqual(run(ranks, "--json", str(self.file)).returncode, 0)
            done = subprocess.run([sys.executable, TOOLS / "plot_ring.py", self.file, picture],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, picture.exists()), (status, status == 0), done.stderr)

    def test_nonsense_is_refused(self):
        for arguments in (("x",), ("--json",), ("--json", "a", "b"), ("--slow", "1"),
                          ("--slow", "0:x"), ("--slow", "-1:5"), ("--slow", "0:5x")):
            done = run(1, *arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("usage: ring_steps [--json FILE] [--slow RANK:MS]", done.stdout)
        done = run(1, "--slow", "1:5")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("error: --slow 1: the ranks are 0 to 0", done.stdout)
        done = run(1, "--json", "/nonexistent/file")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("error: /nonexistent/file: cannot be written", done.stdout)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
