"""A stage's page lists its files; what it forgets or invents is found."""

import tempfile
import unittest
from pathlib import Path

import check_reading
import read_stage

STAGE = "02_grad_accum"


class ReadingOrder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / STAGE).mkdir()
        (self.root / "common").mkdir()
        (self.root / "common/run.hpp").write_text("int x;\n")
        self.write("train.cu", "// why\n\nint a;\nint b;\n")
        self.write("cut.hpp", "int c;\n")

    def write(self, name, text):
        (self.root / STAGE / name).write_text(text)

    def order(self, section):
        self.write("README.md", "# Stage\n\ntrain.cu\n\n" + section)
        return check_reading.reading_order(self.root, STAGE)

    def test_the_order_of_the_page(self):
        listed = ("## 3. Read in this order\n\n1. [`cut.hpp`](cut.hpp) with `common/run.hpp`\n"
                  "### Then\n2. `02_grad_accum/train.cu`, which calls `cut.hpp`\n\n"
                  "## Next\n`no.cu`\n")
        self.assertEqual(self.order(listed), (["cut.hpp", "train.cu"], []))

    def test_a_forgotten_file_comes_last_and_is_told(self):
        files, wrong = self.order("## Read in this order\n`train.cu`\n")
        self.assertEqual(files, ["train.cu", "cut.hpp"])
        self.assertIn("forgets cut.hpp", wrong[0])

    def test_a_file_that_is_not_there(self):
        files, wrong = self.order("## Read in this order\n`train.cu` `cut.hpp` `gone.cuh`\n")
        self.assertEqual(files, ["train.cu", "cut.hpp"])
        self.assertIn("lists gone.cuh", wrong[0])

    def test_no_section_or_no_page(self):
        self.assertIn("no section", self.order("## Run it\n`train.cu` `cut.hpp`\n")[1][0])
        (self.root / STAGE / "README.md").unlink()
        files, wrong = check_reading.reading_order(self.root, STAGE)
        self.assertEqual(files, ["cut.hpp", "train.cu"])
        self.assertIn("no section", wrong[0])

    def test_the_report(self):
        self.order("## Read in this order\n`train.cu` `cut.hpp`\n")
        text, good = read_stage.report(self.root, STAGE)
        self.assertTrue(good)
        rows = [line.split()[:4] for line in text.split("\n")]
        self.assertEqual(rows[2], ["1", "train.cu", "4", "2"])
        self.assertEqual(rows[3], ["2", "cut.hpp", "1", "1"])
        self.assertEqual(rows[4][:3], ["total", "5", "3"])
        self.assertIn("at most 500", text)

    def test_a_stage_over_its_budget(self):
        self.write("cut.hpp", "int c;\n" * 500)
        self.order("## Read in this order\n`train.cu` `cut.hpp`\n")
        text, good = read_stage.report(self.root, STAGE)
        self.assertFalse(good)
        self.assertIn("TOO LONG", text)

    def test_what_is_off_the_reading_path_costs_no_budget(self):
        self.write("fast.cu", "int d;\n" * 500)
        self.order("## Read in this order\n`train.cu` `cut.hpp`\n### Off the reading path\n`fast.cu`\n")
        text, good = read_stage.report(self.root, STAGE)
        self.assertTrue(good, text)
        self.assertEqual(check_reading.check_stage(self.root, STAGE)[0], 3)
        rows = {line.split()[1]: line for line in text.split("\n") if len(line.split()) > 3}
        self.assertIn("off the reading path", rows["fast.cu"])
        self.assertNotIn("off the reading path", rows["cut.hpp"])


if __name__ == "__main__":
    unittest.main()
