"""The workshop of the mutants, with a build and tests that are played by a function."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

import mutants
from sources import ROOT, stages

ENTRY = '''
[[mutant]]
name = "a"
mistake = "m"
file = "x.cu"
find = "one"
replace = "two"
tests = ["t"]
message = "sum is \\\\d"
'''


def parse(text):
    return mutants.parse(text, "list")


class List(unittest.TestCase):
    def problem(self, words, text):
        with self.assertRaises(mutants.Problem) as caught:
            parse(text)
        self.assertIn(words, str(caught.exception))

    def test_defaults(self):
        mutant = parse(ENTRY)["a"]
        self.assertEqual(mutant["targets"], ["t"])
        self.assertEqual(mutant["edits"], [["one", "two"]])
        self.assertTrue(mutant["compiles"])

    def test_problems(self):
        self.problem("no mutants", "")
        self.problem("list:", "[[")
        self.problem("a is there twice", ENTRY + ENTRY)
        self.problem("lacks message", ENTRY.replace("message", "exercise"))
        self.problem("unknown colour", ENTRY + 'colour = "red"\n')
        self.problem("needs find and replace", ENTRY.replace('find = "one"\n', ""))
        self.problem("needs find and replace", ENTRY + 'edits = [["a", "b"]]\n')
        self.problem("changes nothing", ENTRY.replace("two", "one"))
        self.problem("no tests", ENTRY.replace('["t"]', "[]"))

    def test_the_text_must_be_there_once(self):
        mutant = parse(ENTRY)["a"]
        self.assertEqual(mutants.planted("a one", mutant), "a two")
        for text, count in (("a", "0 times"), ("one one", "2 times")):
            with self.assertRaisesRegex(mutants.Problem, count):
                mutants.planted(text, mutant)


class OurLists(unittest.TestCase):
    """Every list of this project fits its sources, or the next change would find it out late."""

    def test_each_can_be_planted(self):
        for stage in stages(ROOT):
            path = mutants.list_of(ROOT, stage[:2])
            found = mutants.parse(path.read_text(), path.name)
            self.assertGreaterEqual(len(found), 8)
            for name, mutant in found.items():
                with self.subTest(name):
                    mutants.planted((ROOT / mutant["file"]).read_text(), mutant)


class Trial(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.file = self.root / "x.cu"
        self.file.write_text("one\n")

    def verdict(self, compiled=True, passed=False, output="sum is 7", **keys):
        seen = []

        def build(targets):
            seen.append(self.file.read_text())
            return compiled, output

        played = SimpleNamespace(build=build, test=lambda tests: (passed, output))
        mutant = {**parse(ENTRY)["a"], **keys}
        verdict, _ = mutants.try_mutant(mutant, self.root, played, have_data=False)
        if verdict not in ("not planted", "skipped"):
            self.assertEqual(seen, ["two\n"])
        self.assertEqual(self.file.read_text(), "one\n")
        return verdict

    def test_verdicts(self):
        self.assertEqual(self.verdict(), "caught")
        self.assertEqual(self.verdict(passed=True), "survived")
        self.assertEqual(self.verdict(output="crash"), "other message")
        self.assertEqual(self.verdict(compiled=False), "does not compile")
        self.assertEqual(self.verdict(edits=[["three", "four"]]), "not planted")
        self.assertEqual(self.verdict(needs_data=True), "skipped")

    def test_a_mistake_that_the_compiler_refuses(self):
        self.assertEqual(self.verdict(compiles=False), "compiles")
        self.assertEqual(self.verdict(compiles=False, compiled=False), "caught")
        self.assertEqual(self.verdict(compiles=False, compiled=False, output="?"),
                         "does not compile")

    def test_a_file_that_is_not_there(self):
        mutant = {**parse(ENTRY)["a"], "file": "gone.cu"}
        self.assertEqual(mutants.try_mutant(mutant, self.root, None)[0], "not planted")
        self.assertFalse((self.root / "gone.cu").exists())

    def test_the_original_comes_back_when_a_person_interrupts(self):
        def build(_):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            mutants.try_mutant(parse(ENTRY)["a"], self.root, SimpleNamespace(build=build))
        self.assertEqual(self.file.read_text(), "one\n")

    def test_none_is_tried_after_the_limit(self):
        entries = parse(ENTRY + ENTRY.replace('"a"', '"b"'))
        played = SimpleNamespace(build=lambda _: (True, ""), test=lambda _: (False, "sum is 7"))
        for limit, expected in ((0, ["not tried", "not tried"]), (1000, ["caught", "caught"])):
            verdicts = mutants.try_all(entries, self.root, played, say=lambda _: None, limit=limit)
            self.assertEqual(list(verdicts.values()), expected)
        self.assertIn("not tried", mutants.GOOD)

    def test_the_table(self):
        entries = parse(ENTRY)
        played = SimpleNamespace(build=lambda _: (True, ""), test=lambda _: (True, "all passed"))
        said = []
        verdicts = mutants.try_all(entries, self.root, played, say=said.append)
        self.assertEqual(verdicts, {"a": "survived"})
        self.assertIn("[1/1] a: survived", said[0])
        self.assertIn("all passed", said[1])
        self.assertTrue(mutants.table(entries, verdicts).endswith("a       m        survived"))


@unittest.skipUnless(shutil.which("git"), "no git here")
class Git(unittest.TestCase):
    """With a repository of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "project"
        self.root.mkdir()
        self.git("init", "-q", "-b", "main")
        self.path = self.root / "tests/mutants/01.toml"
        self.path.parent.mkdir(parents=True)
        self.text = ENTRY + ENTRY.replace('"a"', '"b"').replace("x.cu", "y.cu")
        self.path.write_text(self.text)
        (self.root / ".gitignore").write_text("/build/\n")
        for name in ("x.cu", "y.cu", "z.cu"):
            (self.root / name).write_text("one\n")
        self.commit()

    def git(self, *arguments):
        subprocess.run(["git", "-C", str(self.root), "-c", "user.name=n", "-c", "user.email=e@x.y",
                        *arguments], check=True, capture_output=True)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "-m", "m")

    def changed(self, base="main"):
        found = mutants.changed_mutants(self.root, self.path, parse(self.path.read_text()), base)
        return list(found)

    def test_a_first_commit_is_all_new(self):
        self.assertEqual(self.changed(), ["a", "b"])

    def test_nothing_of_theirs_changed(self):
        (self.root / "z.cu").write_text("three")
        self.commit()
        self.assertEqual(self.changed(), [])

    def test_the_last_commit_on_the_branch_itself(self):
        (self.root / "y.cu").write_text("one, two")
        self.commit()
        self.assertEqual(self.changed(), ["b"])

    def test_a_branch_and_what_is_not_committed(self):
        self.git("checkout", "-q", "-b", "work")
        (self.root / "y.cu").write_text("one, two")
        self.commit()
        (self.root / "z.cu").write_text("three")
        self.commit()
        self.assertEqual(self.changed(), ["b"])
        (self.root / "x.cu").write_text("one, three")
        self.assertEqual(self.changed(), ["a", "b"])
        self.assertEqual(self.changed("HEAD~1"), ["a"])

    def test_a_mutant_that_is_new_or_other(self):
        (self.root / "z.cu").write_text("three")
        self.commit()
        self.path.write_text(self.text.replace('"m"', '"other"', 1)
                             + ENTRY.replace('"a"', '"c"').replace("x.cu", "z.cu"))
        self.assertEqual(self.changed(), ["a", "c"])

    def test_a_test_that_changed(self):
        self.path.write_text(self.text.replace('["t"]', '["stage01_sum_any_order"]', 1))
        self.commit()
        (self.root / "tests/01_first").mkdir()
        for name, expected in (("other_test.cu", []), ("sum_test.cu", ["a"])):
            (self.root / "tests/01_first" / name).write_text("new")
            self.commit()
            self.assertEqual(self.changed(), expected)

    def test_a_clone_of_one_commit_and_a_detached_head(self):
        (self.root / "y.cu").write_text("one, two")
        self.commit()
        whole = self.root
        self.git("checkout", "-q", "--detach")
        self.assertEqual(self.changed(), ["b"])
        self.git("branch", "-q", "-D", "main")  # as where only one commit was fetched
        self.assertEqual(self.changed(), ["b"])
        self.root = whole.parent / "clone"
        subprocess.run(["git", "clone", "-q", "--depth", "1", whole.as_uri(), str(self.root)],
                       check=True, capture_output=True)
        self.path = self.root / "tests/mutants/01.toml"
        self.assertEqual(self.changed(), ["a", "b"])  # nothing to compare with: all

    def test_the_copy(self):
        copy = self.root / "build/copy"
        copy.mkdir(parents=True)
        (self.root / "new.cu").write_text("new")
        mutants.update_copy(self.root, copy)
        self.assertEqual((copy / "new.cu").read_text(), "new")
        self.assertFalse((copy / "build").exists())
        before = (copy / "x.cu").stat().st_mtime_ns
        (copy / "y.cu").write_text("left over from an interrupted trial")
        (self.root / "new.cu").unlink()
        mutants.update_copy(self.root, copy)
        self.assertEqual((copy / "y.cu").read_text(), "one\n")
        self.assertEqual((copy / "x.cu").stat().st_mtime_ns, before)
        self.assertFalse((copy / "new.cu").exists())


if __name__ == "__main__":
    unittest.main()
