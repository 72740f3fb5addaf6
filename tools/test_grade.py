"""Handing out and grading, without a compiler: what is taken, what is refused, limits, reports."""

import io
import json
import os
import sys
import tarfile
import tempfile
import time
import unittest
import zipfile
from dataclasses import replace
from pathlib import Path

from mutant_list import Problem
from sources import ROOT

from grade import grading, handout, report, sandbox, structure, submission
from lab import stage_data
from lab.check import Result
from lab.programs import Run
from lab.stage_data import Exercise, Test
from lab.student_tree import files_with_gaps, gaps

WANTED = ["answers.toml", "04_ring/plan.hpp"]
PLAN = WANTED[1]


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def write(self, name, text="x"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


class Submissions(InFolder):
    def zip(self, *members):
        path = self.folder / "s.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members:
                archive.writestr(name, data)
        return path

    def tar(self, *members):
        path = self.folder / "s.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for member, data in members:
                member = tarfile.TarInfo(member) if isinstance(member, str) else member
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return path

    def test_a_tree_is_found_wherever_it_lies_and_nothing_else_is_taken(self):
        for before in ("", "my/", "me/", "me/my/"):
            with self.subTest(before):
                taken = submission.take(self.zip((before + PLAN, "mine"), (before + "tests/t.cpp", "evil"),
                                                 (f"me/{PLAN}.bak", "no")), WANTED)
                self.assertEqual(taken.files, {PLAN: "mine"})
                taken = submission.take(self.tar((f"./{before}{PLAN}", b"mine")), WANTED)
                self.assertEqual(taken.files, {PLAN: "mine"})
                self.write(f"f{len(before)}/{before}{PLAN}", "mine\r\n")
                self.assertEqual(submission.take(self.folder / f"f{len(before)}", WANTED).files,
                                 {PLAN: "mine\n"})

    def test_what_students_wrote_counts_more_than_the_package_around_it(self):
        taken = submission.take(self.zip((PLAN, "given out"), (f"my/{PLAN}", "mine")), WANTED)
        self.assertEqual(taken.files, {PLAN: "mine"})

    def test_paths_that_lead_out_are_no_files_of_ours(self):
        for name in (f"../{PLAN}", f"/{PLAN}", f"a/../../{PLAN}", f"..\\{PLAN}"):
            self.assertEqual(submission.take(self.zip((name, "x")), WANTED).files, {})
            self.assertEqual(submission.take(self.tar((name, b"x")), WANTED).files, {})

    def test_links_are_refused(self):
        secret = self.write("secret", "secret")
        (self.folder / "a/04_ring").mkdir(parents=True)
        (self.folder / "a" / PLAN).symlink_to(secret)
        (self.folder / "b").mkdir()
        self.write("real/plan.hpp", "secret")
        (self.folder / "b/04_ring").symlink_to(self.folder / "real")
        (self.folder / "c/04_ring").mkdir(parents=True)
        os.mkfifo(self.folder / "c" / PLAN)
        for name in "abc":
            self.assertEqual(submission.take(self.folder / name, WANTED).files, {}, name)
        link = tarfile.TarInfo(PLAN)
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        taken = submission.take(self.tar((link, b"")), WANTED)
        self.assertEqual((taken.files, taken.refused), ({}, {PLAN: "not a regular file"}))
        member = zipfile.ZipInfo(PLAN)
        member.external_attr = 0o120777 << 16
        self.assertEqual(submission.take(self.zip((member, str(secret))), WANTED).refused,
                         {PLAN: "not a regular file"})

    def test_what_is_too_large_or_no_text_is_refused(self):
        for data, words in ((b"x" * (600 << 10), "larger than 512 KiB"), (b"\xff\xfe", "not UTF-8"),
                            (b"a\0b", "not a text")):
            self.assertIn(words, submission.take(self.zip((PLAN, data)), WANTED).refused[PLAN])
            self.assertIn(words, submission.take(self.tar((PLAN, data)), WANTED).refused[PLAN])

    def test_archives_that_grow_or_are_none(self):
        bomb = self.tar(("zeros", b"\0" * (submission.MOST_UNPACKED + 1)))
        with self.assertRaisesRegex(Problem, "256 MiB unpacked"):
            submission.take(bomb, WANTED)
        for name in ("s.zip", "s.tar.gz", "s.rar"):
            with self.assertRaisesRegex(Problem, "archive|wanted"):
                submission.take(self.write(name, "no archive"), WANTED)


class Structure(unittest.TestCase):
    def test_comments_and_strings_do_not_count_and_names_do(self):
        ring = Exercise("4.2", "t", 4, "t", ("a",) * 3, forbidden=("MPI_Allreduce",))
        for text in ("// MPI_Allreduce", "/* exit( */", 'f("MPI_Allreduce");', "MPI_Allreduce_ring();",
                     "#include <vector>\n#include \"a/b.hpp\""):
            self.assertEqual(structure.objections(text, ring), [], text)
        for text in ("MPI_Allreduce(x);", "MPI_All\\\nreduce(x);", "auto f = &MPI_Allreduce;",
                     "#define R MPI_Allreduce", "f(MPI_ ## Allreduce)", "std::exit(0);", "asm(\"\");",
                     '#include "/etc/passwd"', '#include "../../x"', "#include NAME", "# include </etc/x>",
                     "%:define a b", "MPI_\\u0041llreduce()"):
            self.assertTrue(structure.objections(text, ring), text)

    def test_no_solution_of_ours_is_refused(self):
        for stage in stage_data.labs(ROOT):
            exercises, texts = stage_data.load(ROOT, stage), files_with_gaps(ROOT, stage)
            for number, paths in gaps(ROOT, stage).items():
                for path in paths:
                    self.assertEqual(structure.objections(texts[path], exercises[number]), [], path)


class Sandbox(InFolder):
    def run_python(self, program, **limits):
        with sandbox.Scratch(user := sandbox.free_user()) as folder:
            begin = time.monotonic()
            ran = sandbox.run([sys.executable, "-c", program],
                              sandbox.Limits(**{"seconds": 10, **limits}), {"PATH": os.environ["PATH"]},
                              user, folder)
            self.assertLess(time.monotonic() - begin, 30)
        return ran

    def test_status_and_output(self):
        ran = self.run_python("import sys; print('said'); sys.exit(3)")
        self.assertEqual((ran.status, ran.output, ran.ended), (3, "said\n", ""))

    @unittest.skipIf(os.geteuid() != 0, "only root's tests run as somebody else")
    def test_a_folder_that_others_may_not_enter_is_named(self):
        inner = self.folder / "closed" / "inner"
        inner.mkdir(parents=True)
        inner.parent.chmod(0o700)
        self.folder.chmod(0o755)
        self.assertEqual(sandbox.closed_folder(inner), inner.parent.resolve())
        inner.parent.chmod(0o711)
        self.assertEqual(sandbox.closed_folder(inner), None)

    def test_each_limit(self):
        for program, ended, limits in (
                ("while True: pass", "not done after 1 s", {"seconds": 1}),
                ("while True: print('x' * 3000000)", "of output", {"output": 100000}),
                ("b = []\nwhile True: b.append(b'x' * 10000000)", "of memory", {"memory": 100 << 20}),
                ("import os, time\nfor i in range(14):\n if os.fork() == 0: time.sleep(60)\ntime.sleep(60)",
                 "processes", {"processes": 10})):
            ran = self.run_python(program, **limits)
            self.assertEqual(ran.status, None, program)
            self.assertIn(ended, ran.ended)

    def test_a_file_has_an_end(self):
        ran = self.run_python("open('f', 'wb').write(b'x' * 3000000)", file=1 << 20)
        self.assertNotEqual(ran.status, 0)

    def test_what_has_detached_itself_is_ended_too(self):
        mark = f"mark-{os.getpid()}"
        self.run_python("import os, subprocess, sys\nsubprocess.Popen([sys.executable, '-c', "
                        f"'import time; time.sleep(60)', '{mark}'], start_new_session=True)")
        left = [p for p in os.listdir("/proc") if p.isdigit() and self.has(p, mark)]
        self.assertEqual(left, [])

    def has(self, process, mark):
        try:
            return mark.encode() in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False

    @unittest.skipIf(os.geteuid() != 0, "only root can take another user")
    def test_it_writes_to_its_own_folder_alone(self):
        ran = self.run_python(f"open('mine', 'w')\nopen({str(self.folder / 'x')!r}, 'w')")
        self.assertIn("Permission denied", ran.output)


class Verdicts(unittest.TestCase):
    def grader(self, run, recorded):
        grader = object.__new__(grading.Grader)
        grader._run = lambda *_: (run, recorded)
        return grader

    def graded(self, recorded, wanted, verdict="pass"):
        test = Test("p")
        grader = self.grader(Run("p", None, verdict, "", 0), recorded)
        return grader._graded_run({grader._key(test, None): wanted})(ROOT, "p", test, None)

    def test_a_record_must_tell_of_all_tests_and_checks(self):
        wanted = {"a": 2, "b": 3}
        self.assertEqual(self.graded({"a": 2, "b": 3}, wanted).verdict, "pass")
        for recorded, words in ((None, "ended before"), ({"a": 2}, "did not run: b"),
                                ({"a": 2, "b": 2}, "fewer checks than there are: b")):
            run = self.graded(recorded, wanted)
            self.assertEqual(run.verdict, "fail")
            self.assertIn(words, run.reason)
        self.assertEqual(self.graded(None, wanted, "blocked").verdict, "fail")  # exit(77)
        self.assertEqual(self.graded("passed", "passed").verdict, "pass")
        self.assertEqual(self.graded("passed it", "passed").verdict, "fail")

    def test_records(self):
        good = "word\nstatus 0\ncase 5 0 a test: of two\ncase 1 0 b\n"
        self.assertEqual(grading._cases(good, "word"), {"a test: of two": 5, "b": 1})
        for bad in ("", "other" + good[4:], good.replace("status 0", "status 1"),
                    good.replace("5 0", "5 1")):
            self.assertIsNone(grading._cases(bad, "word"))

    def test_hidden_tests_have_other_ranks_and_a_seed(self):
        def ranks(*public, variant=1, **more):
            exercise = Exercise("1.1", "t", 1, "t", (), tests=(Test("p", ranks=public, **more),))
            return grading.hidden_tests(exercise, variant).tests[0]

        self.assertEqual(ranks(2, 3).ranks, (4,))
        self.assertEqual(ranks(2).ranks, (3, 4))
        self.assertEqual(ranks(2, hidden=(2,)).ranks, (2,))
        self.assertEqual(ranks(2, 3, 4, variant=5).ranks, (4,))
        self.assertEqual(ranks().ranks, ())
        self.assertEqual(ranks(variant=7).variables, {"DDP_TEST_VARIANT": "7"})
        self.assertIn("SIMGPU_SCHEDULE", ranks(any_order=True).variables)


class Reports(unittest.TestCase):
    def entries(self):
        good = Result("4.1", "Plan", 1.0, "pass", runs=(Run("p", None, "pass", "", 2.0),))
        bad = replace(good, verdict="fail", reason="exit \x1b[31m<&> \0", output="x" * 20000, runs=())
        blocked = Result("4.2", "Ring", 4, "blocked", "no mpirun here")
        return [grading.Entry("4.1", grading.PUBLIC, good), grading.Entry("4.1", grading.HIDDEN, bad),
                grading.Entry("4.2", grading.PUBLIC, blocked)]

    def test_what_is_blocked_has_no_score(self):
        made = json.loads(report.as_json(report.gradescope(self.entries(), 12.4)))
        self.assertEqual([(t.get("score"), t.get("max_score"), t.get("status")) for t in made["tests"]],
                         [(1, 1, "passed"), (0, 1, "failed"), (None, None, None)])
        self.assertNotIn("score", made)
        self.assertIn("neither a pass nor zero", made["tests"][2]["output"])
        self.assertIn("4.2", made["output"])
        self.assertEqual(made["execution_time"], 12)
        self.assertEqual([t["visibility"] for t in made["tests"]],
                         ["visible", "after_due_date", "visible"])

    def test_hidden_results_are_not_told_in_what_is_shown(self):
        shown = report.gradescope(self.entries(), 1)["output"]
        self.assertIn("1 of 1 points", shown)
        self.assertIn("0 failed", shown)

    def test_output_is_cut_and_xml_can_be_read(self):
        from xml.etree import ElementTree
        root = ElementTree.fromstring(report.junit(self.entries(), 3).encode())
        self.assertEqual([len(root.findall(f".//{kind}")) for kind in ("testcase", "failure", "skipped")],
                         [3, 1, 1])
        self.assertLess(len(root.find(".//failure").text), report.MOST_OUTPUT + 100)


class HandedOut(unittest.TestCase):
    def test_blocks_that_show_a_solution_are_left_out_and_others_stay(self):
        text = "a\n\n```\nx = 1;\n```\n```diff\n-  return least + more(index);\n+ y\n```\nb\n"
        made = handout.without_solutions(text, {"return least + more(index);"})
        self.assertIn("x = 1;", made)
        self.assertNotIn("least", made)
        self.assertEqual(made.count(handout.NO_BLOCK), 1)
        self.assertTrue(made.startswith("a\n") and "\nb\n" in made)

    def test_labs_keep_their_tests_and_lose_exact_hints_and_answers(self):
        for stage in stage_data.labs(ROOT):
            path = ROOT / f"labs/{stage[:2]}.toml"
            text = handout.reduced_lab(path.read_text())
            made, ours = stage_data.parse(text, path), stage_data.load(ROOT, stage)
            for number, exercise in ours.items():
                self.assertEqual(made[number].tests, exercise.tests)
                self.assertEqual(made[number].hints[:2], exercise.hints[:2])
                self.assertNotIn(exercise.hints[2], text)
                self.assertEqual([(s.see, s.means) for s in made[number].symptoms],
                                 [(s.see, s.means) for s in exercise.symptoms])
                self.assertFalse(any("answer" in q or "wrong" in q for q in made[number].questions))
            self.assertNotIn("mutants", text)

    def test_the_package_has_no_line_of_a_solution(self):
        """hand_out looks for itself; here it finds one that was put there."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "note.md"
            path.write_text("ok\n  return  least + more(index);\n")
            self.assertEqual(handout.survivors(folder, {"return least + more(index);": "4.1"}),
                             [("note.md", 2, "4.1")])


if __name__ == "__main__":
    unittest.main()
