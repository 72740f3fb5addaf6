#!/usr/bin/env python3
"""Plants small mistakes in a copy of the project, one at a time, and expects the tests to fail.

A test that never failed proves nothing. tests/mutants/STAGE.toml lists mistakes as a reader would
make them. Each entry [[mutant]] has

    name      what --only asks for
    mistake   one line for people
    exercise  its number, if it is a wrong answer to one (optional)
    file      from the root of the project
    find      text that stands there exactly once, and what to put in its place:
    replace     or `edits`, a list of [find, replace], where one place is not enough
    tests     the ctest tests that must fail
    targets   what to build for them (the same names, if left out)
    message   a regular expression that the output of the failing tests must match
    compiles  false if the compiler already refuses it; message is then looked for in its output
    needs_data  true if the tests notice it only with Fashion-MNIST installed

The copy lies in build/mutants, so that the second run compiles little.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from sources import ROOT, stages

LISTS = "tests/mutants"
KEYS = {"name", "mistake", "file", "tests", "message"}
OPTIONAL = {"exercise", "find", "replace", "edits", "targets", "compiles", "needs_data"}
GOOD = {"caught", "skipped", "not tried"}  # what a mutant may end as


class Problem(Exception):
    """The list or the project is not as it must be."""


# --- the list -------------------------------------------------------------------------------------


def parse(text, where):
    """The mutants of a list, by name, with the optional keys filled in."""
    try:
        entries = tomllib.loads(text).get("mutant", [])
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"{where}: {error}") from error
    mutants = {}
    for entry in entries:
        name = entry.get("name", "?")
        if missing := KEYS - set(entry):
            raise Problem(f"{where}: {name} lacks {', '.join(sorted(missing))}")
        if unknown := set(entry) - KEYS - OPTIONAL:
            raise Problem(f"{where}: {name} has unknown {', '.join(sorted(unknown))}")
        if name in mutants:
            raise Problem(f"{where}: {name} is there twice")
        if ("edits" in entry) == ("find" in entry) or ("find" in entry) != ("replace" in entry):
            raise Problem(f"{where}: {name} needs find and replace, or edits")
        edits = entry.get("edits") or [[entry["find"], entry["replace"]]]
        if not entry["tests"] or any(len(edit) != 2 or edit[0] == edit[1] for edit in edits):
            raise Problem(f"{where}: {name} has no tests, or an edit that changes nothing")
        mutants[name] = {"compiles": True, "needs_data": False, "targets": entry["tests"],
                         **entry, "edits": edits}
    if not mutants:
        raise Problem(f"{where}: no mutants")
    return mutants


def list_of(root, stage):
    """Path of a stage's list, by the stage's number."""
    return root / LISTS / f"{stage}.toml"


def planted(text, mutant):
    """The text of the file with the mistake in it."""
    for find, replace in mutant["edits"]:
        if (count := text.count(find)) != 1:
            first = find.strip().split("\n")[0]
            raise Problem(f"{mutant['file']} has {count} times, not once: {first}")
        text = text.replace(find, replace)
    return text


# --- what changed ---------------------------------------------------------------------------------


def git(root, *arguments):
    """Output of a git command, or None if it fails."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def base_commit(root, base):
    """Where this work left `base`; the commit before the last one if it is `base` itself."""
    head = git(root, "rev-parse", "HEAD")
    merge_base = git(root, "merge-base", "HEAD", base)
    if merge_base is None or merge_base == head:
        merge_base = git(root, "rev-parse", "--verify", "--quiet", "HEAD~1")
    return merge_base.strip() if merge_base else None


def tests_changed(mutant, files):
    """Whether the source of one of its tests is among the files: stage01_layers is
    tests/01_*/layers_test.*, in any order of threads too."""
    for test in mutant["tests"]:
        if match := re.fullmatch(r"stage(\d\d)_(\w+?)(_any_order)?", test):
            source = re.compile(rf"tests/{match[1]}_\w+/{match[2]}_test\.\w+")
            if any(source.fullmatch(file) for file in files):
                return True
    return False


def changed_mutants(root, path, mutants, base):
    """Those that are new or other than in the base commit, or whose file or tests are."""
    commit = base_commit(root, base)
    if commit is None:
        return mutants  # nothing to compare with: a first commit, or no git
    names = git(root, "diff", "--name-only", commit) or ""
    untracked = git(root, "ls-files", "--others", "--exclude-standard") or ""
    files = set((names + untracked).split("\n"))
    old_text = git(root, "show", f"{commit}:{path.relative_to(root)}")
    try:
        old = parse(old_text, "the base") if old_text else {}
    except Problem:
        old = {}
    return {name: mutant for name, mutant in mutants.items()
            if mutant["file"] in files or old.get(name) != mutant or tests_changed(mutant, files)}


# --- the copy -------------------------------------------------------------------------------------


def project_files(root):
    """What git tracks or would track, by path from the root; without git, all but the outputs."""
    listed = git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    if listed is not None:
        names = listed.split("\0")
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("*")]
        names = [n for n in names if n.split("/")[0] not in ("build", "runs", ".git")]
    return sorted(name for name in names if name and (root / name).is_file())


def update_copy(root, copy):
    """Makes `copy` equal to the project; a file that is equal already keeps its time."""
    wanted = set(project_files(root))
    for path in sorted(copy.rglob("*")):
        if path.is_file() and str(path.relative_to(copy)) not in wanted:
            path.unlink()
    for name in sorted(wanted):
        source, target = root / name, copy / name
        if not target.is_file() or source.read_bytes() != target.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            shutil.copymode(source, target)


class Build:
    """Builds and tests the copy with simulated GPUs."""

    def __init__(self, copy, build, jobs):
        self.copy, self.folder, self.jobs = copy, build, jobs
        # What a caller has set for simulated GPUs must not decide which mutants survive.
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("SIMGPU_", "DDP_FAULT"))}
        # A mutant that has overwritten memory could hang afterwards.
        self.environment["DDP_STOP_AT_FIRST_FAILURE"] = "1"

    def run(self, command, limit):
        """(succeeded, output) of a command."""
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=limit,
                                  stdin=subprocess.DEVNULL, env=self.environment)
        except subprocess.TimeoutExpired as error:
            return False, f"{error.stdout or ''}\n{command[0]} took more than {limit} s"
        return done.returncode == 0, done.stdout

    def configure(self):
        # A mistake may leave a parameter unused, which is no reason not to compile: so -w.
        # -O1 compiles faster than -O3, and runs the tests faster than -O0.
        return self.run(["cmake", "-S", str(self.copy), "-B", str(self.folder), "-G", "Ninja",
                         "-DDDP_GPU=sim", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-w",
                         "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG"], 300)

    def build(self, targets):
        return self.run(["cmake", "--build", str(self.folder), "-j", str(self.jobs),
                         "--target", *sorted(set(targets))], 900)

    def test(self, tests):
        names = "|".join(re.escape(test) for test in tests)
        return self.run(["ctest", "--test-dir", str(self.folder), "--output-on-failure",
                         "--no-tests=error", "-R", f"^({names})$"], 600)


# --- the trial ------------------------------------------------------------------------------------


def try_mutant(mutant, copy, build, have_data=True):
    """Plants one mutant in the copy, builds, tests and restores. Returns (verdict, output)."""
    if mutant["needs_data"] and not have_data:
        return "skipped", "Fashion-MNIST is not installed"
    path = copy / mutant["file"]
    original = path.read_text() if path.is_file() else ""
    try:
        path.write_text(planted(original, mutant))
        compiled, output = build.build(mutant["targets"])
        if not compiled:
            if not mutant["compiles"] and re.search(mutant["message"], output):
                return "caught", output
            return "does not compile", output
        if not mutant["compiles"]:
            return "compiles", "it is marked as one that does not"
        passed, output = build.test(mutant["tests"])
        if passed:
            return "survived", output
        return ("caught" if re.search(mutant["message"], output) else "other message"), output
    except Problem as problem:
        return "not planted", str(problem)
    finally:
        if path.is_file():
            path.write_text(original)


def try_all(mutants, copy, build, have_data=True, say=print, limit=None):
    """Tries each mutant, none after `limit` seconds; returns its verdict by name."""
    verdicts = {}
    start = time.monotonic()
    for number, (name, mutant) in enumerate(mutants.items(), 1):
        begin = time.monotonic()
        if limit is not None and begin - start >= limit:
            verdicts[name] = "not tried"
            continue
        verdict, output = try_mutant(mutant, copy, build, have_data)
        verdicts[name] = verdict
        seconds = time.monotonic() - begin
        say(f"[{number}/{len(mutants)}] {name}: {verdict} ({seconds:.0f} s)")
        if verdict not in GOOD:
            say("\n".join(f"    {line}" for line in output.strip().split("\n")[-25:]))
    return verdicts


def table(mutants, verdicts, last="verdict"):
    """What was planted and what became of it, a line each."""
    rows = [("exercise", "mutant", "mistake", last)]
    rows += [(m.get("exercise", "-"), name, m["mistake"], verdicts[name])
             for name, m in mutants.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths)), row[3]])
                     for row in rows)


def chosen_mutants(root, arguments):
    """The mutants that the arguments ask for, of one stage or of all."""
    numbers = [stage[:2] for stage in stages(root)
               if arguments.stage in ("all", stage, stage[:2], stage[3:], str(int(stage[:2])))]
    chosen = {}
    for number in numbers:
        path = list_of(root, number)
        if not path.is_file():
            raise Problem(f"no list {path.relative_to(root)}")
        mutants = parse(path.read_text(), path.relative_to(root))
        if arguments.changed:
            mutants = changed_mutants(root, path, mutants, arguments.base)
        if twice := set(chosen) & set(mutants):
            raise Problem(f"{', '.join(sorted(twice))}: in more than one list")
        chosen |= mutants
    if arguments.only:
        if unknown := set(arguments.only) - set(chosen):
            raise Problem(f"no mutant {', '.join(sorted(unknown))}; there is: {', '.join(chosen)}")
        chosen = {name: chosen[name] for name in chosen if name in arguments.only}
    if not numbers:
        raise Problem(f"no stage {arguments.stage}")
    return chosen


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="./course mutants", description=__doc__.split("\n")[0])
    parser.add_argument("stage", nargs="?", default="all", help="01, ..., or all (default)")
    parser.add_argument("--only", action="append", metavar="NAME", help="this one; may be repeated")
    parser.add_argument("--changed", action="store_true",
                        help="only mutants that changed, or whose file or tests did, since --base")
    parser.add_argument("--limit", type=float, metavar="SECONDS",
                        help="try none after this time, and each time begin with others")
    parser.add_argument("--base", default=os.environ.get("DDP_BASE", "main"),
                        help="branch or commit to compare with (main, or the variable DDP_BASE)")
    parser.add_argument("--list", action="store_true", help="only print them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    return parser.parse_args(arguments)


def main(arguments):
    from doctor import missing_data  # here, since what needs no doctor is tested without it

    arguments = parse_arguments(arguments)
    mutants = chosen_mutants(ROOT, arguments)
    if not mutants:
        print("mutants: none of their files changed")
        return 0
    if arguments.list:
        print(table(mutants, {n: " ".join(m["tests"]) for n, m in mutants.items()}, "tests"))
        return 0
    copy, begin = ROOT / "build/mutants/tree", time.monotonic()
    build = Build(copy, ROOT / "build/mutants/build", arguments.jobs)
    copy.mkdir(parents=True, exist_ok=True)
    update_copy(ROOT, copy)
    every = list(mutants.values())
    print(f"mutants: {len(every)}; first the tests without any, in build/mutants", flush=True)
    for ok, output in (
        build.configure(),
        build.build([target for m in every for target in m["targets"]]),
        build.test(sorted({test for m in every for test in m["tests"]})),
    ):
        if not ok:
            raise Problem(f"the project does not build or its tests fail as it is:\n{output}")
    print(f"mutants: these pass ({time.monotonic() - begin:.0f} s)", flush=True)
    if arguments.limit is not None:  # by commit, so that over some commits each has its turn
        names = sorted(mutants)
        random.Random(git(ROOT, "rev-parse", "HEAD") or "").shuffle(names)
        mutants = {name: mutants[name] for name in names}
    verdicts = try_all(mutants, copy, build, not missing_data(),
                       lambda text: print(text, flush=True), arguments.limit)
    bad = [name for name, verdict in verdicts.items() if verdict not in GOOD]
    print("\n" + table(mutants, verdicts))
    tried = sum(verdict != "not tried" for verdict in verdicts.values())
    print(f"mutants: {tried} of {len(every)} planted, {len(bad)} not caught as expected"
          f" ({time.monotonic() - begin:.0f} s)")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Problem as problem:
        print(f"mutants: {problem}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
