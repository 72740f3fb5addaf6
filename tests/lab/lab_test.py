"""The lab of stage 04 as a student goes through it: start, red, a mistake that is named, green.

    lab_test.py FOLDER_TO_BUILD_IN BUILD_OF_THE_COURSE
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLAN = "04_ring_allreduce/chunk_plan.hpp"


def region(text):
    """The lines of exercise 4.1 between its markers."""
    begin = text.index("\n", text.index("// [exercise 4.1]")) + 1
    return text[begin:text.index("  // [/exercise]")]


class Lab(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name).resolve()
        self.solution = region((ROOT / PLAN).read_text())

    def lab(self, command, *words):
        """(status, output)."""
        built = ["--build", BUILD, "--reference", REFERENCE, "--preset", "sim"] if command == "check" else []
        done = subprocess.run(
            [sys.executable, "-m", "lab", command, *words, "--tree", str(self.tree), *built],
            env={**os.environ, "PYTHONPATH": str(ROOT / "tools")}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        return done.returncode, done.stdout

    def write(self, text):
        path = self.tree / PLAN
        whole = path.read_text()
        path.write_text(whole.replace(region(whole), text))

    def expect(self, status, words, command, *arguments):
        found, output = self.lab(command, *arguments)
        for word in words:
            self.assertIn(word, output)
        self.assertEqual(found, status, output)

    def test_from_red_to_green(self):
        self.expect(2, ["./course lab start 04"], "check", "4.1")
        self.expect(0, ["files made: 5"], "start", "04")
        self.assertNotIn("std::min", (self.tree / PLAN).read_text())
        self.expect(1, ["4.1 The chunk plan: FAIL, 0 of 2 points", "not written yet"], "check", "4.1")
        self.expect(2, ["4.1 has not passed yet"], "solution", "4.1")
        self.expect(0, ["hint 1 of 3"], "hint", "4.1")

        # The remainder lost: the values, and what they usually mean.
        self.write(self.solution.replace("count % parts", "0"))
        self.expect(1, ["compiled: your " + PLAN, "failed: AR-01: ten elements on three ranks",
                        "{ offset 6, count 3 }", "usually means: What the ranks do not divide"],
                    "check", "4.1")

        # An error of the compiler is told at the student's line.
        self.write("\n\n  return not_a_name;\n")
        line = (self.tree / PLAN).read_text().split("not_a_name")[0].count("\n") + 1
        self.expect(1, ["it does not compile", f"{PLAN}:{line}:"], "check", "4.1")

        self.write(self.solution)
        self.expect(0, ["4.1 The chunk plan: PASS, 2 of 2 points", "into 1 object file"],
                    "check", "4.1")
        self.expect(0, ["count % parts"], "solution", "4.1")
        self.expect(0, ["backup"], "reset", "4.1")
        self.expect(0, ["passed, 1 of 3 hints"], "list")


if __name__ == "__main__":
    BUILD, REFERENCE = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
