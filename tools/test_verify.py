"""verify must fail where N GPUs do not train as one does. The programs here are made up."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent

# Writes the metrics of a run that halves its loss. FAKE_ERROR=KIND:SIZE spoils those of stage 03, or
# those of stage 06 in halves.
PROGRAM = '''#!{python}
import json, os, sys
words = sys.argv[1:]
option = lambda name, default: words[words.index(name) + 1] if name in words else default
kind, size = os.environ.get("FAKE_ERROR", "none:0").split(":")
several = os.path.basename(sys.argv[0]).startswith("03") or "fp16" in words and "-n 1 " not in os.environ["FAKE_MPI"]
if several and kind == "status":
    print("error: it broke", file=sys.stderr)
    sys.exit(5)
off = float(size) if several else 0
steps = int(option("--steps", 3))
with open(option("--metrics", None), "w") as out:
    write = lambda **event: print(json.dumps(event), file=out)
    write(event="run", stage="fake", simulated=kind != "real", device="Simulated")
    for step in range(1, steps + 1):
        loss = 1 / step * (1 + (off if kind == "loss" and step == 2 else 0))
        write(event="step", step=step, epoch=1, loss=1.0 if kind == "flat" else loss, samples=1,
              seconds=0)
    if "--check-gradients" in words:
        for step in range(1, steps + 1 - (kind == "unchecked")):
            write(event="check", step=step, loss_difference=off if kind == "checked-loss" else 0,
                  gradient_difference=off if kind == "gradient" else 0)
    write(event="end", parameter_checksum="b" if kind == "weights" and several else "a",
          traffic=[dict(messages_sent=1, bytes_sent=8, collectives=1, collective_bytes=8)] * 2)
'''

# One rank is enough where nothing is computed.
MPIRUN = """#!{python}
import os, sys
program = next(i for i, word in enumerate(sys.argv) if os.path.basename(word)[:2] in ("03", "06"))
os.environ["FAKE_MPI"] = " ".join(sys.argv)
os.execv(sys.argv[program], sys.argv[program:])
"""


class Verify(unittest.TestCase):
    def verify(self, error="none:0", stage="03_naive_allreduce"):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("02_grad_accum", PROGRAM), (stage, PROGRAM), ("mpirun", MPIRUN)):
                program = Path(folder, name)
                program.write_text(text.replace("{python}", sys.executable))
                program.chmod(0o755)
            return subprocess.run(
                [sys.executable, TOOLS / "verify.py", folder, stage, "--ranks", "2",
                 "--steps", "40"], capture_output=True, text=True, timeout=120, check=False,
                env={**os.environ, "FAKE_ERROR": error, "PATH": f"{folder}:/usr/bin:/bin"})

    def test_programs_that_keep_the_promise(self):
        done = self.verify()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("\nPASS\n", done.stdout)
        self.assertIn("no hardware result", done.stdout)

    def test_each_part_can_fail(self):
        for error, part in (("loss:1e-9", "equal"), ("weights:0", "weights differ"),
                            ("loss:1e-9", "B "), ("checked-loss:2e-6", "C "),
                            ("gradient:2e-5", "C "), ("unchecked:0", "C "), ("flat:0", "mean loss")):
            done = self.verify(error)
            self.assertEqual(done.returncode, 1, error)
            self.assertIn("\nFAIL", done.stdout)
            bad = [line for line in done.stdout.splitlines() if line.endswith(" FAIL")]
            self.assertTrue(any(part in line or "from step 2" in line for line in bad), done.stdout)

    def test_differences_within_the_bounds_pass(self):
        for error in ("checked-loss:5e-7", "gradient:5e-6"):
            self.assertEqual(self.verify(error).returncode, 0, error)

    def test_halves_have_bounds_of_their_own(self):
        for error, good in (("gradient:1e-3", True), ("gradient:3e-3", False), ("loss:1e-6", False)):
            done = self.verify(error, stage="06_mixed_precision")
            self.assertEqual(done.returncode, 0 if good else 1, error + done.stdout + done.stderr)
            bad = [line for line in done.stdout.splitlines() if line.endswith(" FAIL")]
            self.assertTrue(all("fp16" in line for line in bad), done.stdout)

    def test_a_program_that_fails_is_no_pass(self):
        done = self.verify("status:0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("status 5", done.stderr)
        self.assertIn("it broke", done.stderr)

    def test_too_few_real_gpus(self):
        done = self.verify("real:0")
        self.assertEqual(done.returncode, 6, done.stdout)
        self.assertIn("requires at least 2 physical GPUs; found", done.stderr)


if __name__ == "__main__":
    unittest.main()
