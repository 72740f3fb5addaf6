"""Labs: regions, a student's tree, and what labs/ says of it. Nothing is compiled here."""

import re
import tempfile
import unittest
from pathlib import Path

from mutant_list import Problem, list_of, parse
from sources import ROOT

from lab import regions, stage_data
from lab.student_tree import StudentTree, files_with_gaps, gaps, handed_out

SOURCE = """#pragma once

#include <vector>

int twice(int x) {
  // [exercise 1.1] Return two x.
  return 2 * x;
  // [/exercise]
}
// between
void hello() {
    // [exercise 1.2] Greet.
    greet();
    // [/exercise]
}
"""
LAB = """
[[exercise]]
number = "1.1"
title = "Twice"
points = 2
task = "Return x and x again."
hints = ["a", "b", "c"]
tests = [{ program = "t" }]
[[exercise.symptom]]
see = "3 == 4"
means = "one short"
[[exercise]]
number = "1.2"
title = "Hello"
points = 1
task = "Greet."
hints = ["a", "b", "c"]
kernel = true
tests = [{ program = "t", ranks = [2] }]
"""


class Regions(unittest.TestCase):
    def test_markers_are_found_with_their_lines(self):
        found = regions.regions(SOURCE)
        self.assertEqual(list(found), ["1.1", "1.2"])
        self.assertEqual(found["1.1"].body, ("  return 2 * x;",))
        self.assertEqual((found["1.1"].line, found["1.2"].indent, found["1.2"].task),
                         (6, 4, "Greet."))
        self.assertEqual(regions.with_bodies(SOURCE, {}), SOURCE)

    def test_a_second_region_of_an_exercise_has_a_key_of_its_own(self):
        found = regions.regions(SOURCE.replace("1.2", "1.1"))
        self.assertEqual([(r.key, r.number) for r in found.values()],
                         [("1.1", "1.1"), ("1.1#2", "1.1")])

    def test_damaged_markers_are_named(self):
        close = "  // [/exercise]\n"
        for text, words in ((SOURCE.replace(close, "", 1), "f:11: exercise 1.2 begins inside"),
                            (SOURCE.replace("    // [/exercise]\n", ""), "f:12: exercise 1.2 has no"),
                            (close, r"f:1: \[/exercise\] without")):
            with self.assertRaisesRegex(Problem, words):
                regions.parse(text, "f")

    def test_a_stub_names_the_exercise_below_the_task(self):
        region = regions.regions(SOURCE)["1.2"]
        body = regions.stub(region, "Say hello. " * 15, kernel=True)
        self.assertEqual(body[-1], '    cuda::not_implemented("1.2");')
        self.assertTrue(all(line.startswith("    // ") and len(line) <= 100 for line in body[:-1]))
        self.assertEqual(len(body), 3)
        self.assertTrue(regions.is_stub(body))
        self.assertFalse(regions.is_stub(region.body))

    def test_includes_come_behind_the_last_one_and_once(self):
        text = regions.with_includes(SOURCE, ["a.hpp"])
        self.assertIn('#include <vector>\n#include "a.hpp"\n', text)
        self.assertEqual(regions.with_includes(text, ["a.hpp"]), text)
        self.assertEqual(regions.with_includes("#pragma once\nx", ["a.hpp"]),
                         '#pragma once\n#include "a.hpp"\nx')

    def test_a_merge_keeps_my_regions_and_takes_the_changes_around_them(self):
        mine = SOURCE.replace("2 * x", "x + x").replace("#include <vector>", "#include <map>")
        new = (SOURCE.replace("// between", "// in between").replace("return 2", "return 2 *")
               .replace("Return two x", "Double it"))
        merged = regions.merge(SOURCE, mine, new)
        self.assertEqual(merged, mine.replace("// between", "// in between")
                         .replace("Return two x", "Double it"))
        self.assertEqual(regions.merge(SOURCE, mine, SOURCE), mine)

    def test_a_merge_takes_a_new_region_and_drops_one_that_is_gone(self):
        third = "// [exercise 1.3] More.\n// [/exercise]\n"
        self.assertEqual(regions.merge(SOURCE, SOURCE, SOURCE + third), SOURCE + third)
        self.assertEqual(regions.merge(SOURCE + third, SOURCE + third, SOURCE), SOURCE)

    def test_the_same_place_changed_twice_is_told_and_the_same_change_is_none(self):
        mine = SOURCE.replace("// between", "// mine")
        with self.assertRaisesRegex(Problem, "changed the same place: // between"):
            regions.merge(SOURCE, mine, SOURCE.replace("// between", "// theirs"))
        self.assertEqual(regions.merge(SOURCE, mine, mine), mine)

    def test_the_overlay_has_my_lines_where_they_are(self):
        mine = SOURCE.replace("  return 2 * x;", "  int y = x;\n  y += x;\n  return y;").replace(
            "    greet();", "    wrong();\n    wrong();")
        laid = regions.overlay(mine, SOURCE, {"1.1"}, "my/f")
        self.assertIn("y += x;", laid)
        self.assertNotIn("wrong", laid)
        self.assertIn("    greet();\n#line 17 \"my/f\"\n    // [/exercise]", laid)
        self.assertEqual(mine.split("\n")[16], "    // [/exercise]")
        self.assertTrue(laid.startswith('#line 1 "my/f"\n#pragma once'))
        self.assertIn("wrong", regions.overlay(mine, SOURCE, None, "my/f"))
        no_solution = SOURCE.replace("greet()", 'not_implemented("1.2")')
        self.assertIn("wrong", regions.overlay(mine, no_solution, {"1.1"}, "my/f"))


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.stage, self.path = "01_toy", "01_toy/toy.hpp"
        for name, text in ((self.path, SOURCE), ("01_toy/plain.hpp", "// nothing to do\n"),
                           ("labs/01.toml", LAB)):
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(text)
        self.tree = StudentTree(self.root, self.root / "my")

    def change_reference(self, old, new):
        path = self.root / self.path
        path.write_text(path.read_text().replace(old, new))

    def write_mine(self, old, new):
        text = self.tree.read(self.path)
        self.assertIn(old, text)
        self.tree.write(self.path, text.replace(old, new))

    def test_start_hands_out_files_with_gaps_and_no_solution(self):
        self.assertEqual(self.tree.start(self.stage), [self.path])
        text = self.tree.read(self.path)
        self.assertNotRegex(text, r"2 \* x|greet\(\)")
        self.assertIn('  // Return x and x again.\n  not_implemented("1.1");\n  // [/exercise]', text)
        self.assertIn('#include "common/not_implemented.hpp"', text)
        self.assertIn('#include "common/cuda/not_implemented.cuh"', text)
        self.assertFalse((self.tree.folder / "01_toy/plain.hpp").exists())
        self.assertEqual(self.tree.name(self.path), "my/01_toy/toy.hpp")

    def test_start_touches_nothing_that_is_there(self):
        self.tree.start(self.stage)
        self.write_mine('not_implemented("1.1");', "return x + x;")
        before = self.tree.read(self.path)
        self.assertEqual(self.tree.start(self.stage), [])
        self.assertEqual(self.tree.read(self.path), before)

    def test_what_is_untouched(self):
        self.tree.start(self.stage)
        self.write_mine('not_implemented("1.1");', "return x + x;")
        self.assertFalse(self.tree.untouched(self.stage, "1.1"))
        self.assertTrue(self.tree.untouched(self.stage, "1.2"))

    def test_reset_puts_one_gap_back_and_keeps_the_text(self):
        self.tree.start(self.stage)
        self.write_mine('not_implemented("1.1");', "return x + x;")
        self.write_mine('cuda::not_implemented("1.2");', "hi();")
        ((path, backup),) = self.tree.reset(self.stage, "1.1")
        self.assertEqual(path, self.path)
        self.assertIn("return x + x;", self.tree.read(backup))
        self.assertIn('not_implemented("1.1");', self.tree.read(self.path))
        self.assertIn("hi();", self.tree.read(self.path))
        self.assertNotEqual(self.tree.reset(self.stage, "1.1")[0][1], backup)

    def test_damaged_markers_are_told_and_reset_mends_them(self):
        self.tree.start(self.stage)
        self.write_mine("  // [/exercise]\n}\n// between", "}\n// between")
        with self.assertRaisesRegex(Problem, "my/01_toy/toy.hpp"):
            self.tree.overlay(self.stage, {"1.1"})
        self.tree.reset(self.stage, "1.1")
        self.tree.overlay(self.stage, {"1.1"})
        text = self.tree.read(self.path)
        self.tree.write(self.path, re.sub(r"  // \[exercise 1.1\].*?\[/exercise\]", "", text,
                                          count=1, flags=re.DOTALL))
        with self.assertRaisesRegex(Problem, "exercise 1.1 are gone; ./course lab reset 1.1"):
            self.tree.overlay(self.stage, {"1.2"})

    def test_update_brings_what_is_outside_and_loses_nothing(self):
        self.tree.start(self.stage)
        self.assertEqual(self.tree.update(self.stage), [])
        self.write_mine('not_implemented("1.1");', "return x + x;")
        self.change_reference("// between", "// in between")
        self.change_reference("return 2 * x", "return x * 2")  # a solution is no change for students
        self.assertEqual(self.tree.update(self.stage), [(self.path, "updated")])
        text = self.tree.read(self.path)
        self.assertIn("// in between", text)
        self.assertIn("return x + x;", text)
        self.assertEqual(self.tree.update(self.stage), [])

    def test_update_changes_the_task_in_a_gap_that_is_untouched(self):
        self.tree.start(self.stage)
        self.write_mine('not_implemented("1.1");', "return x + x;")
        lab = self.root / "labs/01.toml"
        lab.write_text(LAB.replace('task = "Greet."', 'task = "Greet the world."').replace(
            "x again", "x once more"))
        self.tree.update(self.stage)
        text = self.tree.read(self.path)
        self.assertIn("// Greet the world.", text)
        self.assertIn("// Return x and x again.", text)

    def test_update_leaves_a_conflict_as_it_is(self):
        self.tree.start(self.stage)
        self.write_mine("// between", "// mine")
        self.change_reference("// between", "// theirs")
        ((_, what),) = self.tree.update(self.stage)
        self.assertIn("left as it is; my/01_toy/toy.hpp: you and the course", what)
        self.assertIn("// mine", self.tree.read(self.path))

    def test_what_is_not_started_is_told(self):
        with self.assertRaisesRegex(Problem, "./course lab start 01"):
            self.tree.need(self.stage)


class Data(unittest.TestCase):
    def test_problems_are_named(self):
        for old, new, words in (
                ('points = 2\n', "", "lacks points"), ('"c"]', '"c", "d"]', "has 4 hints"),
                ("tests = [{", "test = [{", "unknown test"), ('"1.2"', '"1.1"', "is there twice"),
                ('see = "3 == 4"', 'see = "("', "unterminated"), ("ranks", "rank", "unknown rank")):
            with self.assertRaisesRegex(Problem, words):
                stage_data.parse(LAB.replace(old, new), "labs/01.toml")
        with self.assertRaisesRegex(Problem, "needs tests or questions"):
            stage_data.parse(LAB.replace('tests = [{ program = "t" }]', ""), "lab")

    def test_names_of_stages_and_exercises(self):
        for name in ("4", "04", "ring_allreduce", "04_ring_allreduce"):
            self.assertEqual(stage_data.stage_called(ROOT, name), "04_ring_allreduce")
        self.assertEqual(stage_data.exercise_called(ROOT, "4.2")[1].number, "4.2")
        for name, words in (("4.9", "no exercise 4.9; there is: 4.1"), ("x.y", "no exercise")):
            with self.assertRaisesRegex(Problem, words):
                stage_data.exercise_called(ROOT, name)


class OurLabs(unittest.TestCase):
    def test_every_gap_has_an_exercise_and_every_exercise_a_gap_or_questions(self):
        self.assertGreaterEqual(len(stage_data.labs(ROOT)), 5)
        for stage in stage_data.labs(ROOT):
            exercises = stage_data.load(ROOT, stage)
            with_tests = {n for n, e in exercises.items() if e.tests}
            self.assertEqual(set(gaps(ROOT, stage)), with_tests, stage)

    def test_what_is_handed_out_has_no_line_of_a_solution(self):
        for stage in stage_data.labs(ROOT):
            exercises = stage_data.load(ROOT, stage)
            for path, text in files_with_gaps(ROOT, stage).items():
                given = handed_out(text, exercises, path)
                plain = {line.strip() for line in regions.parse(text) if isinstance(line, str)}
                solved = {line.strip() for r in regions.regions(text).values() for line in r.body}
                lines = {line.strip() for line in given.split("\n")}
                self.assertEqual({line for line in (solved - plain) & lines if len(line) > 1}, set(),
                                 path)

    def test_every_mistake_in_a_students_file_has_a_symptom(self):
        common = {name for s in stage_data.common_symptoms(ROOT) for name in s.mutants}
        for stage in stage_data.labs(ROOT):
            exercises, mine = stage_data.load(ROOT, stage), files_with_gaps(ROOT, stage)
            listed = parse(list_of(ROOT, stage[:2]).read_text(), stage)
            explained = {(e.number, n) for e in exercises.values() for s in e.symptoms for n in s.mutants}
            wanted = {(m["exercise"], name) for name, m in listed.items()
                      if m.get("exercise") and m["file"] in mine}
            self.assertEqual({w for w in wanted if w[1] not in common} - explained, set(), stage)
            self.assertEqual({n for _, n in explained} - set(listed), set(), stage)

    def test_programs_are_targets_and_mutants_exercises(self):
        cmake = "\n".join(p.read_text() for p in ROOT.glob("*/**/CMakeLists.txt")
                          if "build" not in p.relative_to(ROOT).parts)
        for stage in stage_data.labs(ROOT):
            exercises = stage_data.load(ROOT, stage)
            for exercise in exercises.values():
                for test in exercise.tests:
                    subject = test.program.removeprefix(f"stage{stage[:2]}_")
                    self.assertRegex(cmake, rf"\b({test.program}|{subject})\b", exercise.number)
            path = list_of(ROOT, stage[:2])
            for name, mutant in parse(path.read_text(), path.name).items():
                self.assertIn(mutant.get("exercise", exercise.number), exercises, name)


if __name__ == "__main__":
    unittest.main()
