"""Labs: what a test's output says, verdicts, answers, progress. Programs are played by scripts."""

import os
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from mutant_list import Problem
from sources import ROOT

from lab import answers, check, programs, report, stage_data, symptoms, test_output
from lab.build import Built, LabBuild, Proof
from lab.progress import Progress
from lab.stage_data import Exercise, Symptom, Test
from lab.student_tree import StudentTree

RULE, DOTS = "-" * 79, "." * 79
SINGLE = f"""
{RULE}
SH-03: shards differ by at most one sample, the larger ones
first
{RULE}
tests/03_naive_allreduce/shard_test.cpp:29
{DOTS}

tests/03_naive_allreduce/shard_test.cpp:31: FAILED:
  CHECK( sizes(10, 4) == Sizes{{3, 3, 2, 2}} )
with expansion:
  {{ 2, 2, 2, 4 }} ==
  {{ 3, 3, 2, 2 }}
with message:
  10 samples

===============================================================================
test cases: 1 | 1 failed
"""
RANKS = "".join(f"""rank {rank}: {RULE}
rank {rank}: DD-01: gradients 2, 4, 6, 8
rank {rank}: {RULE}
rank {rank}: tests/a_test.cu:166
rank {rank}: {DOTS}
rank {rank}:
rank {rank}: tests/a_test.cu:187: FAILED:
rank {rank}:   CHECK( gradient == 5 )
rank {rank}: with expansion:
rank {rank}:   20.0 == 5
rank {rank}:
""" for rank in (0, 2)) + "FAILED on rank 0, 2: DD-01: gradients 2, 4, 6, 8\n"
THROWN = f"""rank 1: {RULE}
rank 1: the buffer after each step of the ring
rank 1: {RULE}
rank 1: tests/b_test.cpp:37
rank 1: {DOTS}
rank 1:
rank 1: tests/b_test.cpp:37: FAILED:
rank 1: due to unexpected exception with message:
rank 1:   exercise 4.2 is not
rank 1:   implemented
rank 1:
"""
HANG = """test 'AR-01 (a)' is not done after 10 s
  rank 0: waiting for 9.9 s to send 40 bytes to rank 1
  rank 1: waiting for 9.9 s to send 40 bytes to rank 0
deadlock: 0 waits for 1 waits for 0
"""


class Output(unittest.TestCase):
    def test_one_process(self):
        (failure,) = test_output.failures(SINGLE)
        self.assertEqual(failure.test, "SH-03: shards differ by at most one sample, the larger ones first")
        self.assertEqual(failure.where, "tests/03_naive_allreduce/shard_test.cpp:31")
        self.assertEqual(failure.check, "CHECK( sizes(10, 4) == Sizes{3, 3, 2, 2} )")
        self.assertEqual(failure.values, "{ 2, 2, 2, 4 } == { 3, 3, 2, 2 }")
        self.assertEqual((failure.notes, failure.ranks), ("10 samples", ()))

    def test_ranks_that_fail_alike_are_one_failure(self):
        (failure,) = test_output.failures(RANKS)
        self.assertEqual((failure.values, failure.ranks), ("20.0 == 5", (0, 2)))

    def test_what_was_thrown(self):
        (failure,) = test_output.failures(THROWN)
        self.assertEqual(failure.check, "")
        self.assertEqual(failure.values, "exercise 4.2 is not implemented")
        (failure,) = test_output.failures(THROWN.replace(
            "due to", "  {Unknown expression after the reported line}\nrank 1: due to"))
        self.assertEqual((failure.check, failure.values), ("", "exercise 4.2 is not implemented"))

    def test_who_waits(self):
        self.assertEqual(len(test_output.waits(HANG)), 4)
        self.assertEqual(test_output.waits(SINGLE), [])

    def test_why_a_program_ended(self):
        text = "3 ranks\nerror: the ring is still locked\nerror: the ring is still locked\n"
        self.assertEqual(test_output.errors(text), ["error: the ring is still locked"])


class Symptoms(unittest.TestCase):
    def test_the_first_own_one_and_all_common_ones_also_in_wrapped_output(self):
        known = (Symptom(r"20(\.0)? == 5", "no division"), Symptom("4.2 is not implemented", "gap"),
                 Symptom(r"\{ 2, 2, 2, 4 \} == \{ 3", "the rest to the last"),
                 Symptom("gradient ==", "wrong"))
        for output, means in ((RANKS, "no division"), (THROWN, "gap"),
                              (SINGLE, "the rest to the last")):
            self.assertEqual(symptoms.meanings(output, known, ()), [means])
        self.assertEqual(symptoms.meanings(RANKS, known, known), ["no division", "wrong"])

    def test_the_common_ones(self):
        common = stage_data.common_symptoms(ROOT)
        for text, words in ((HANG, "circle"), ("  missing: rank 1\n", "rank that is missing"),
                            ("divergent barrier at x.cu:7", "__syncthreads"),
                            ("  nan == 4", "NaN"), ("-nan <= 1", "NaN"), (THROWN, "not_implemented")):
            self.assertIn(words, " ".join(symptoms.meanings(text, (), common)))
        self.assertEqual(symptoms.meanings("  2.0 == 4\nnanoseconds", (), common), [])


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_script(self, script, **options):
        path = self.folder / "program"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return programs.run_once(ROOT, path, Test("program", **options), None)

    def test_verdicts(self):
        for script, verdict, reason in (
                ("exit 0", "pass", ""), ("exit 1", "fail", ""), ("kill -SEGV $$", "fail", ""),
                ("echo skipped: no CUDA device; exit 77", "blocked", "no CUDA device"),
                ("echo No test cases matched; exit 0", "blocked", "no such test in the program")):
            run = self.run_script(script)
            self.assertEqual((run.verdict, run.reason), (verdict, reason), script)

    def test_a_time_limit_is_a_failure(self):
        run = self.run_script("exec sleep 5", limit=1)
        self.assertEqual((run.verdict, run.timed_out), ("fail", True))

    def test_words_and_arguments_and_variables(self):
        run = self.run_script('test "$1 $SIMGPU_SCHEDULE" = "a* delays:5"', cases="a*",
                              variables={"SIMGPU_SCHEDULE": "delays:5"})
        self.assertEqual((run.verdict, run.words), ("pass", 'SIMGPU_SCHEDULE=delays:5 program "a*"'))

    def test_which_runs_a_test_asks_for(self):
        test = Test("p", ranks=(2, 3), any_order=True)
        found = [(bool(v.variables), n) for v, n in programs.runs_of(test, True)]
        self.assertEqual(found, [(False, 2), (False, 3), (True, 2), (True, 3)])
        self.assertEqual(len(list(programs.runs_of(test, False))), 2)
        self.assertEqual(list(programs.runs_of(replace(test, simulated=True), False)), [])


class FakeBuild(LabBuild):
    """Builds nothing; says what it is told to."""

    def __init__(self, folder, script="exit 0", built=Built(True, ""), objects=1):
        super().__init__(folder, ["01_toy"], folder=folder / "build")
        self.built, self.objects = built, objects
        (self.folder / "bin").mkdir(parents=True)
        self.program("p").write_text("#!/bin/sh\n" + script)
        self.program("p").chmod(0o755)

    def lacks(self):
        return None

    def prepare(self):
        return Built(True, "")

    def lay(self, _files):
        return Built(True, "")

    def build(self, _targets, _blamed):
        return self.built

    def proof(self, path):
        return Proof(path, "0123", self.objects)


class Checks(unittest.TestCase):
    exercise = Exercise("1.1", "Twice", 2, "t", ("a",) * 3, tests=(Test("p"),),
                        symptoms=(Symptom("4 == 5", "one short"),))

    def check(self, **fake):
        with tempfile.TemporaryDirectory() as folder:
            build = FakeBuild(Path(folder), **fake)
            return check.check_files(build.root, build, self.exercise, {"f": ""}, ["f"], (), ["my/f"])

    def test_verdicts_and_points(self):
        result = self.check()
        self.assertEqual((result.verdict, result.won), ("pass", 2))
        result = self.check(script="echo '4 == 5'; exit 1")
        self.assertEqual((result.verdict, result.won, result.meanings), ("fail", 0, ("one short",)))
        result = self.check(script="echo skipped: no GPU; exit 77")
        self.assertEqual((result.verdict, result.reason), ("blocked", "no GPU"))

    def test_a_build_that_fails_is_the_students_or_not(self):
        result = self.check(built=Built(False, "my/f:3: error: x", "you"))
        self.assertEqual((result.verdict, result.reason), ("fail", "it does not compile"))
        result = self.check(built=Built(False, "other.cpp:3: error: x", "reference"))
        self.assertEqual(result.verdict, "blocked")

    def test_tests_without_the_students_file_prove_nothing(self):
        result = self.check(objects=0)
        self.assertEqual(result.verdict, "blocked")
        self.assertIn("not with your f", result.reason)

    def test_the_report_says_it_in_words(self):
        text = "\n".join(report.lines(replace(
            self.check(script="exit 1"), output=RANKS, failures=tuple(test_output.failures(RANKS)),
            waits=("0 waits for 1",), meanings=("no division",))))
        for words in ("1.1 Twice: FAIL, 0 of 2 points", "failed on ranks 0, 2: DD-01",
                      "expected  CHECK( gradient == 5 )", "found     20.0 == 5",
                      "who waits for whom:\n      0 waits for 1", "usually means: no division"):
            self.assertIn(words, text)

    def test_what_is_blocked_is_no_zero(self):
        results = [self.check(), self.check(script="exit 77"), self.check(script="exit 1")]
        self.assertEqual(report.summary(results), "1 passed, 1 failed, 1 blocked; 2 of 4 points, "
                                                  "2 more could not be checked here")


class Proofs(unittest.TestCase):
    def proof(self, deps, touched=False):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name).resolve()
            build = LabBuild(root, ["01_toy"], folder=root / "build")
            build.overlay.mkdir(parents=True)
            (build.overlay / "f.hpp").write_text("x")
            (build.folder / "a.o").write_text("")
            if touched:  # after the object was made
                os.utime(build.folder / "a.o", (1, 1))
            build._run = lambda *_, **__: (True, deps)
            return build.proof("f.hpp")

    def test_objects_that_the_compiler_made_of_the_file(self):
        self.assertEqual(self.proof("a.o: #deps 1, (VALID)\n    overlay/f.hpp\n").objects, 1)

    def test_none_of_another_file_or_older_or_of_the_reference_too(self):
        self.assertFalse(self.proof("a.o: #deps 1, (VALID)\n    overlay/g.hpp\n"))
        self.assertFalse(self.proof("a.o: #deps 1, (STALE)\n    overlay/f.hpp\n"))
        self.assertFalse(self.proof("a.o: #deps 1, (VALID)\n    overlay/f.hpp\n", touched=True))
        self.assertFalse(self.proof("a.o: #deps 2, (VALID)\n    overlay/f.hpp\n    ../f.hpp\n"))


class Answers(unittest.TestCase):
    exercise = Exercise("2.5", "Bits", 3, "Predict.", ("a",) * 3, questions=(
        {"key": "equal", "ask": "Equal?", "kind": "same_bits", "program": "p",
         "runs": [[1], [2]], "wrong": [{"answer": False, "means": "they are one"}]},
        {"key": "loss", "ask": "How much?", "kind": "measured", "program": "p", "options": [1],
         "value": "step.-1.loss", "within": 0.1},
        {"key": "who", "ask": "Who?", "kind": "choice", "options": ["he", "she"], "answer": "she"},
        {"key": "why", "ask": "Why?", "kind": "prediction"}))
    questions = {q["key"]: q for q in exercise.questions}

    def test_a_part_of_the_file_is_made_once_and_taken_out_again(self):
        text = answers.add_blanks("", [self.exercise])
        self.assertIn('["2.5"]', text)
        self.assertIn('# Who? One of: "he", "she"', text)
        self.assertIn('equal = ""', text)
        self.assertEqual(answers.add_blanks(text, [self.exercise]), text)
        other = text + '\n["3.5"]\nx = 1\n'
        self.assertNotIn("equal", answers.without(other, "2.5"))
        self.assertIn('["3.5"]\nx = 1', answers.without(other, "2.5"))

    def test_the_truth_is_found_by_running_each_once(self):
        runs = []

        def runner(program, ranks, *options, variables):
            runs.append((program, ranks, *options, variables))
            return SimpleNamespace(run={}, steps=[{"loss": 3.0}, {"loss": 2.0}],
                                   end={"parameter_checksum": "a"})

        truth = answers.Truth(runner)
        found = {key: truth.of(question) for key, question in self.questions.items()}
        self.assertEqual(found, {"equal": True, "loss": 2.0, "who": "she", "why": None})
        self.assertEqual(len(runs), 2)

    def test_judging(self):
        for key, answer, right, verdict, words in (
                ("equal", True, True, "pass", "true"), ("equal", False, True, "fail", "they are one"),
                ("equal", 1, True, "fail", "the runs say otherwise"), ("equal", "", True, "fail", "not answered"),
                ("loss", 2.1, 2.0, "pass", ""), ("loss", 2.3, 2.0, "fail", ""),
                ("loss", "2", 2.0, "fail", ""), ("who", "she", "she", "pass", ""),
                ("who", "he", "she", "fail", ""), ("why", "so", None, "pass", ""),
                ("why", None, None, "fail", "not answered")):
            outcome = answers.judge(self.questions[key], answer, right)
            self.assertEqual(outcome.verdict, verdict, (key, answer))
            self.assertIn(words, outcome.text)

    def test_ours_are_known_kinds_and_named_once(self):
        for stage in stage_data.labs(ROOT):
            for exercise in stage_data.load(ROOT, stage).values():
                keys = [q["key"] for q in exercise.questions]
                self.assertEqual(len(set(keys)), len(keys))
                for question in exercise.questions:
                    if question["kind"] in ("number", "choice"):
                        answers.Truth(None).of(question)
                    else:
                        self.assertIn(question["kind"], ("same_bits", "measured", "prediction"))


class Keeping(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = StudentTree(ROOT, folder.name)

    def result(self, verdict):
        return check.Result("4.2", "t", 4, verdict)

    def test_hints_come_one_by_one_and_the_last_again(self):
        exercise = Exercise("4.2", "t", 4, "t", ("vague", "closer", "exact"))
        found = [Progress(self.tree).next_hint(exercise) for _ in range(4)]
        self.assertEqual(found, [(1, "vague"), (2, "closer"), (3, "exact"), (3, "exact")])

    def test_a_pass_stays_and_opens_the_solution(self):
        self.assertFalse(Progress(self.tree).may_see_solution("4.2"))
        for verdict in ("pass", "blocked", "fail"):
            Progress(self.tree).checked(self.result(verdict))
        entry = Progress(self.tree).of("4.2")
        self.assertEqual((entry["passed"], entry["verdict"], entry["checks"]), (True, "fail", 3))
        self.assertTrue(Progress(self.tree).may_see_solution("4.2"))

    def test_who_gives_up_sees_it_too(self):
        Progress(self.tree).checked(self.result("fail"))
        Progress(self.tree).note("4.2", gave_up=True)
        self.assertTrue(Progress(self.tree).may_see_solution("4.2"))

    def test_a_damaged_file_is_named(self):
        (self.tree.folder / "progress.json").write_text("{")
        with self.assertRaisesRegex(Problem, "progress.json.*delete it"):
            Progress(self.tree)


if __name__ == "__main__":
    unittest.main()
