#!/usr/bin/env python3
"""Plants small mistakes in a copy of the project, one at a time, and expects the tests to fail.

A test that never failed proves nothing. tests/mutants/STAGE.toml lists mistakes as a reader would
make them; tools/mutant_list.py says what an entry has.

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
from pathlib import Path

from mutant_list import Problem, list_of, parse, planted
from processes import clean_environment, run
from sources import ROOT, stages

GOOD = {"caught", "skipped", "not tried"}  # what a mutant may end as


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
        names = [n for n in names if n.split("/")[0] not in ("build", "runs", "my", ".git")]
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
        # A mutant that has overwritten memory could hang afterwards.
        self.environment = clean_environment(DDP_STOP_AT_FIRST_FAILURE="1")

    def run(self, command, limit):
        """(succeeded, output) of a command."""
        status, output = run(command, limit, self.environment)
        return status == 0, output

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


class Healthy:
    """The copy without a mistake in it, whose tests must pass before one is planted."""

    def __init__(self, build):
        self.build, self.configured, self.passed = build, False, set()

    def check(self, mutants):
        """Builds and runs the tests of the mutants that have not passed yet."""
        new = [m for m in mutants if not self.passed.issuperset(m["tests"])]
        tests = sorted({test for m in new for test in m["tests"]} - self.passed)
        targets = [target for m in new for target in m["targets"]]
        if not new:
            return
        for ready in (lambda: self.configured or self.build.configure(),
                      lambda: self.build.build(targets), lambda: self.build.test(tests)):
            ok, output = ready()
            if not ok:
                raise Problem(f"the project does not build or its tests fail as it is:\n{output}")
        self.configured = (True, "")
        self.passed |= set(tests)


def in_turns(mutants, commit):
    """In an order that the commit decides, so that each is among the first at some commit; those
    with the same tests stay together, which are built once."""
    names = sorted(mutants)
    random.Random(commit).shuffle(names)
    tests = [mutants[name]["tests"] for name in names]
    return {name: mutants[name] for name in sorted(names, key=lambda n: tests.index(
        mutants[n]["tests"]))}


def try_all(mutants, copy, build, have_data=True, say=print, limit=None, before=lambda _: None):
    """Tries each mutant after before(mutant), none after `limit` seconds; returns its verdict by
    name."""
    verdicts = {}
    start = time.monotonic()
    for number, (name, mutant) in enumerate(mutants.items(), 1):
        begin = time.monotonic()
        if limit is not None and begin - start >= limit:
            verdicts[name] = "not tried"
            continue
        before(mutant)
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
        print("mutants: none of their files or tests changed")
        return 0
    if arguments.list:
        print(table(mutants, {n: " ".join(m["tests"]) for n, m in mutants.items()}, "tests"))
        return 0
    copy, begin = ROOT / "build/mutants/tree", time.monotonic()
    build = Build(copy, ROOT / "build/mutants/build", arguments.jobs)
    copy.mkdir(parents=True, exist_ok=True)
    update_copy(ROOT, copy)
    healthy = Healthy(build)
    if arguments.limit is None:
        print(f"mutants: {len(mutants)}; first the tests without any, in build/mutants", flush=True)
        healthy.check(mutants.values())
        print(f"mutants: these pass ({time.monotonic() - begin:.0f} s)", flush=True)
    else:
        print(f"mutants: {len(mutants)}, none after {arguments.limit:g} s", flush=True)
        mutants = in_turns(mutants, git(ROOT, "rev-parse", "HEAD") or "")
    verdicts = try_all(mutants, copy, build, not missing_data(), lambda text: print(text, flush=True),
                       arguments.limit, lambda mutant: healthy.check([mutant]))
    bad = [name for name, verdict in verdicts.items() if verdict not in GOOD]
    print("\n" + table(mutants, verdicts))
    tried = sum(verdict != "not tried" for verdict in verdicts.values())
    print(f"mutants: {tried} of {len(mutants)} planted, {len(bad)} not caught as expected"
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
