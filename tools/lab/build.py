"""Builds a student's files, and proves that it did.

A lab's build has a folder of its own for each preset and stage. The student's files lie in its
overlay/, at their paths from the root; the compiler looks there first. Libraries of earlier stages
come from the reference's build (cmake/ddp_targets.cmake). What comes later than the student's stage
is not built.
"""

import fcntl
import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from mutant_list import Problem
from processes import clean_environment, run

CONFIGURE_LIMIT, BUILD_LIMIT = 300, 1200  # seconds


@dataclass(frozen=True)
class Built:
    ok: bool
    output: str
    blame: str = ""  # where it failed: "you", or "reference" for all that is not the student's


@dataclass(frozen=True)
class Proof:
    """That the compiler read a student's file: how many object files of the tests came of it."""
    path: str
    checksum: str  # of the file as it was compiled
    objects: int

    def __bool__(self):
        return self.objects > 0


def _lenient():
    """Where warnings are errors, gaps would not compile: their parameters are unused."""
    environment = clean_environment()
    environment.pop("CI", None)
    return environment


class LabBuild:
    """`reference` is the folder of the reference's build, made where it is missing."""

    def __init__(self, root, stages, preset="sim", folder=None, reference=None, jobs=None):
        self.root, self.stages, self.preset = Path(root), sorted(stages), preset
        name = "-".join(stage[:2] for stage in self.stages)
        self.folder = Path(folder or self.root / "build/lab" / preset / name).resolve()
        self.overlay = self.folder / "overlay"
        self.reference = Path(reference or self.root / "build" / preset).resolve()
        self.jobs = jobs or os.cpu_count()
        self.lock = None
        self.runner = run  # of what reads a student's files; a grader has one with limits

    def alone(self):
        """Two at once in one folder would spoil it."""
        if self.lock is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lock = open(self.folder / "lock", "w", encoding="utf-8")
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise Problem(f"another check is building in {self.folder}") from error

    def _run(self, *command, limit=BUILD_LIMIT):
        status, output = self.runner(list(map(str, command)), limit, _lenient())
        return status == 0, output

    def _run_reference(self, *command, limit=BUILD_LIMIT):
        """As everybody builds it: other variables would build all of it again."""
        status, output = run(list(map(str, command)), limit, dict(os.environ))
        return status == 0, output

    def lacks(self):
        """What this machine lacks to build, or None."""
        for program in ("cmake", "ninja", "nvcc" if self.preset == "cuda" else "g++"):
            if not shutil.which(program) and not Path(f"/usr/local/cuda/bin/{program}").exists():
                return f"no {program} here (./course doctor says how to get it)"
        return None

    def prepare(self):
        """Builds the reference's libraries of what comes before the lab's first stage, and of the tests."""
        before = [p.name[3:] for p in sorted(self.root.glob("[0-9][0-9]_*"))
                  if p.name < self.stages[0] and (p / "CMakeLists.txt").is_file()]
        return self.build_reference(["catch_session", "common_mpi", *before])

    def build_reference(self, targets):
        """Builds targets as they are in the course, without anything of a student."""
        if not (self.reference / "build.ninja").is_file():
            ok, output = self._run_reference("cmake", "--preset", self.preset, "-S", self.root,
                                             "-B", self.reference, limit=CONFIGURE_LIMIT)
            if not ok:
                return Built(False, output, "reference")
        ok, output = self._run_reference("cmake", "--build", self.reference, "-j", self.jobs, "--target",
                                         *targets)
        return Built(ok, output, "" if ok else "reference")

    def lay(self, files):
        """Makes overlay/ hold these files ({path: text}) and no others; equal ones keep their
        time."""
        self.alone()
        for path in self.overlay.rglob("*"):
            if path.is_file() and str(path.relative_to(self.overlay)) not in files:
                path.unlink()
        for name, text in files.items():
            target = self.overlay / name
            if not target.is_file() or target.read_text() != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
        names, stamp = "\n".join(sorted(files)), self.folder / "overlaid"
        if (stamp.is_file() and stamp.read_text() == names
                and (self.folder / "build.ninja").is_file()):
            return Built(True, "")
        ok, output = self._run(
            "cmake", "--preset", self.preset, "-S", self.root, "-B", self.folder,
            f"-DDDP_LAB_OVERLAY={self.overlay}", f"-DDDP_LAB_STAGE={self.stages[0]}",
            f"-DDDP_LAB_REFERENCE={self.reference}",
            "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",  # compiled soon, and fast enough for tests
            limit=CONFIGURE_LIMIT)
        if ok:
            stamp.write_text(names)
        return Built(ok, output, "" if ok else "reference")

    def build(self, targets, blamed):
        """Builds the targets. Where that fails it is the student's doing if the compiler names one
        of the paths `blamed`, or a name is missing in linking that no library of the reference wants."""
        ok, output = self._run("cmake", "--build", self.folder, "-j", self.jobs, "--target",
                               *sorted(set(targets)))
        output = output.replace(f"{self.root}/", "")
        if ok:
            return Built(True, output)
        named = [str(path).removeprefix(f"{self.root}/") for path in blamed]
        archives = str(self.reference).removeprefix(f"{self.root}/") + "/"  # not of the student's making
        unlinked = "undefined reference" in output and archives not in output
        yours = unlinked or any(f"{path}:" in output for path in named)
        return Built(False, output, "you" if yours else "reference")

    def program(self, name):
        return self.folder / "bin" / name

    def proof(self, path):
        """For a file of the overlay: which objects the compiler says that it made of it, none of
        them older than the file, and none made of the reference's file in its place."""
        laid, theirs = self.overlay / path, self.root / path
        checksum = hashlib.sha256(laid.read_bytes()).hexdigest()[:12]
        ok, output = self._run("ninja", "-C", self.folder, "-t", "deps", limit=60)
        objects = 0
        for block in re.split(r"\n(?=\S)", output) if ok else ():
            head, *lines = block.split("\n")
            if not head.endswith("(VALID)"):
                continue
            read = {os.path.normpath(self.folder / line.strip()) for line in lines if line.strip()}
            if str(laid) not in read:
                continue
            if str(theirs) in read:
                return Proof(path, checksum, 0)
            target = self.folder / head.split(":")[0]
            objects += target.is_file() and target.stat().st_mtime >= laid.stat().st_mtime
        return Proof(path, checksum, objects)
