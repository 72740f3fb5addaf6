"""Grades submissions of exercise 4.1: right, half right, careless, and hostile ones; and hands out.

    grade_test.py FOLDER_TO_BUILD_IN BUILD_OF_THE_COURSE
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
PLAN = "04_ring_allreduce/chunk_plan.hpp"
SOURCE = (ROOT / PLAN).read_text()
BEGIN = SOURCE.index("\n", SOURCE.index("// [exercise 4.1]")) + 1
END = SOURCE.index("  // [/exercise]")
SOLUTION = SOURCE[BEGIN:END]
# The grader without its check of names, which would refuse what the limits and the record have to stop.
NAMES_UNCHECKED = ("import sys; from grade import grade, grading; grading.objections = lambda *_: []; "
                   "sys.exit(grade.main(sys.argv[1:]))")
OTHERS = """#include <sys/types.h>
#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>
"""


def public_counts():
    """What variant_counts(2^40) gives where nobody chose a seed: SplitMix64 from 0."""
    mask, state, counts = (1 << 64) - 1, 0, []
    for _ in range(4):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        counts.append(1 + (mixed ^ (mixed >> 31)) % (1 << 40))
    return counts


def skip_where_nobody_may_look():
    sys.path.insert(0, str(ROOT / "tools"))
    from grade import sandbox
    if closed := sandbox.closed_folder(ROOT):
        print(f"skipped: the user that tests run as may not enter {closed}")
        sys.exit(77)


def with_region(text, before=""):
    whole = SOURCE[:BEGIN] + text + "\n" + SOURCE[END:]
    return whole.replace("\nnamespace ddp {", f"\n{before}\nnamespace ddp {{", 1)


class Grade(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def grade(self, submission, *options, check_names=True):
        """(status, results.json, JUnit's root, what was printed)."""
        out, junit = self.folder / "results.json", self.folder / "junit.xml"
        done = subprocess.run(
            [sys.executable, *(("-m", "grade.grade") if check_names else ("-c", NAMES_UNCHECKED)),
             str(submission), "--stages", "4.1", "--reference", REFERENCE, "--build", BUILD, "--limit", "2", "--memory", "500", "--out", str(out), "--junit", str(junit), *options],
            env={**os.environ, "PYTHONPATH": str(ROOT / "tools")}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertIn(done.returncode, (0, 1, 77), done.stdout)
        return (done.returncode, json.loads(out.read_text()), ElementTree.parse(junit).getroot(),
                done.stdout)

    def submit(self, text, name="mine"):
        path = self.folder / name / PLAN
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return self.folder / name

    def expect(self, scores, words, submission, check_names=True):
        """`words`: what the first exercise's output has; or several, one of which it has."""
        status, results, junit, output = self.grade(submission, check_names=check_names)
        self.assertEqual([t.get("score") for t in results["tests"]], scores, output)
        self.assertEqual(status, 0 if all(scores) else 1)
        words = [words] if isinstance(words, str) else words
        said = results["tests"][0]["output"]
        self.assertTrue(any(word in said for word in words), f"none of {words} in\n{said}")
        self.assertEqual(len(junit.findall(".//failure")), sum(not s for s in scores))
        return results

    def test_right_is_all_points(self):
        results = self.expect([1, 1], "PASS", self.submit(SOURCE))
        self.assertEqual([t["visibility"] for t in results["tests"]], ["visible", "after_due_date"])
        self.assertEqual([t["max_score"] for t in results["tests"]], [1, 1])
        self.assertNotIn("hidden", results["output"])

    def test_an_archive_one_folder_down_with_edited_tests(self):
        path = self.folder / "s.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"me-1234/my/{PLAN}", with_region(SOLUTION.replace("count % parts", "0")))
            archive.writestr("me-1234/tests/04_ring_allreduce/chunk_plan_test.cpp", "int main() {}")
            archive.writestr("me-1234/labs/04.toml", "")
        self.expect([0, 0], "{ offset 6, count 3 }", path)

    def test_made_for_the_public_tests(self):
        # Right for all counts of the public tests, and for no other large one.
        known = " && ".join(f"count != {count}U" for count in public_counts())
        self.expect([1, 0], "PASS", self.submit(with_region(
            f"  if (count > (std::size_t{{1}} << 34) && {known}) return {{}};\n{SOLUTION}")))

    def test_nothing_empty_unfinished_or_broken(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.expect([0, 0], "not handed in", empty)
        self.expect([0, 0], "marker lines", self.submit(""))
        self.expect([0, 0], "not written yet", self.submit(with_region('  not_implemented("4.1");')))
        self.expect([0, 0], "it does not compile", self.submit(with_region("  return nothing;")))
        link = self.folder / "link"
        (link / PLAN).parent.mkdir(parents=True)
        (link / PLAN).symlink_to("/etc/passwd")
        self.expect([0, 0], "a link", link)
        self.expect([0, 0], "larger than", self.submit(SOURCE + "//" + "x" * (1 << 20)))

    def test_forbidden_names(self):
        self.expect([0, 0], "uses exit", self.submit(with_region(" std::exit(0);" + SOLUTION)))
        self.expect([0, 0], "plain names", self.submit(with_region(SOLUTION, '#include "/etc/passwd"')))

    def test_hostile_code_is_ended_in_time(self):
        """Each is ended by a limit or betrayed by the missing record, and nothing of it is left."""
        for text, words in (
                ("for (volatile bool on = true; on;) {}", "not done after 2 s"),
                ("for (;;) std::cout << std::string(4096, '!') << std::flush;", "MiB of output"),
                ("for (std::vector<char*> all;;) {\n  all.push_back(new char[100000000]);\n"
                 "  std::memset(all.back(), 1, 100000000);\n}", "MiB of memory"),
                ("for (;;) if (fork() == 0) setsid();", ("processes", "not done after 2 s")),
                ("std::cout << \"All tests passed (99 assertions in 5 test cases)\" << std::endl;\n"
                 "std::exit(0);", "the program ended before its tests did"),
                ("std::exit(77);", "as if it had been skipped"),
                ("std::abort();", "SIGABRT")):
            with self.subTest(words):
                self.expect([0, 0], words, self.submit(with_region(f"{text}\n{SOLUTION}", OTHERS)), False)


class HandOut(unittest.TestCase):
    def test_a_package_has_gaps_works_and_shows_no_solution(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder).resolve() / "course"
            clean = {k: v for k, v in os.environ.items() if k != "DDP_LAB_TREE"}

            def run(*command, where=ROOT):
                done = subprocess.run(command, cwd=where, env=clean, stdin=subprocess.DEVNULL, timeout=300,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                return done.returncode, done.stdout

            status, text = run("./course", "handout", str(out))
            self.assertEqual(status, 0, text)
            self.assertEqual(run("./course", "handout", str(out))[0], 2)
            self.assertFalse(any((out / gone).exists() for gone in (
                ".git", "tests/mutants", "tools/grade", "grading", "docs/grading.md", "my", "build")))
            self.assertIn('not_implemented("4.1");', (out / PLAN).read_text())
            for path in out.rglob("*"):
                if path.is_file() and path.suffix != ".gz":
                    text = path.read_bytes().decode(errors="replace")
                    for line in ("earlier * least + std::min", "min(index, count % ranks)", "answer = 88889"):
                        self.assertNotIn(line, text, path)
            lesson = (out / "02_grad_accum/README.md").read_text()  # it prints 2.2 and 2.4 in a diff
            self.assertIn("is not in this package", lesson)
            self.assertFalse([line for line in lesson.split("\n") if "model.backward(" in line])

            # A student's own region is checked there; what it stands on has been built here.
            (out / "build").mkdir()
            (out / "build/sim").symlink_to(REFERENCE)
            status, text = run("./course", "lab", "start", "04", where=out)
            self.assertEqual(status, 0, text)
            mine = out / "my" / PLAN
            check = (sys.executable, "-m", "lab", "check", "4.1", "--reference", REFERENCE,
                     "--build", f"{folder}/build", "--preset", "sim")
            clean["PYTHONPATH"] = str(out / "tools")
            status, text = run(*check, where=out)
            self.assertIn("not written yet", text)
            whole = mine.read_text()
            begin = whole.index("\n", whole.index("// [exercise 4.1]")) + 1
            mine.write_text(whole[:begin] + SOLUTION + whole[whole.index("  // [/exercise]"):])
            status, text = run(*check, where=out)
            self.assertEqual(status, 0, text)
            self.assertIn("4.1 The chunk plan: PASS", text)


if __name__ == "__main__":
    BUILD, REFERENCE = sys.argv.pop(1), sys.argv.pop(1)
    if "HandOut" not in sys.argv:
        skip_where_nobody_may_look()
    unittest.main()
