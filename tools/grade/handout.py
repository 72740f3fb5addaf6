"""./course handout OUT: the course as students get it.

    ./course handout OUT [--stages 01,04]

Every marked region is a gap, or those of the chosen stages. What shows a solution is left out: planted mistakes,
tests of the labs themselves, the exact hints, right answers to questions, blocks in lessons that print a line
of a solution, and the history.
"""

import argparse
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from check_links import is_external, lines_of, replace_links
from mutant_list import Problem
from sources import ROOT

from lab import regions, stage_data
from lab.student_tree import files_with_gaps, handed_out

LEFT_OUT = ("tests/mutants/", "tests/lab/", "tools/grade/", "tools/test_", "grading/", ".ci/", ".github/",
            "docs/grading.md", "docs/instructors.md")
NOT_OURS = {".git", "build", "runs", "my", "__pycache__"}
LAST_HINT = "The exact hint is not in this package. Ask whoever teaches you."
NO_BLOCK = "(What stands here shows a solution, and is not in this package.)"
TELLING = 25  # a line of more characters is looked for


def files_of(root):
    """The paths of the course's own files."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], stdout=subprocess.PIPE, text=True,
                                check=True).stdout
        return sorted(p for p in listed.split("\0") if p and (root / p).is_file())
    return sorted(str(p.relative_to(root)) for p in root.rglob("*")
                  if p.is_file() and not NOT_OURS & set(p.relative_to(root).parts))


# --- what shows a solution ------------------------------------------------------------------------


def normal(line):
    """A line without indentation, marks of a diff and bars of a table."""
    return " ".join(line.lstrip("+- |>").split())


def solution_lines(root, stages):
    """{line: exercise} of the regions of some stages, those that are long enough to tell something."""
    found = {}
    for stage in stages:
        for path, text in files_with_gaps(root, stage).items():
            for region in regions.regions(text, path).values():
                found |= {normal(line): region.number for line in region.body
                          if len(normal(line)) > TELLING}
    return found


def common_lines(root, stages):
    """The lines that sources have outside of these stages' regions: they are told anyway."""
    gaps = {path for stage in stages for path in files_with_gaps(root, stage)}
    found = set()
    for path in files_of(root):
        if Path(path).suffix in (".hpp", ".cuh", ".cu", ".cpp") and not path.startswith(LEFT_OUT):
            text = (root / path).read_text()
            if path in gaps:
                text = regions.with_bodies(text, {key: () for key in regions.regions(text)})
            found |= set(map(normal, text.split("\n")))
    return found


def without_solutions(markdown, solutions):
    """A lesson without the blocks of code that have a line of a solution."""
    lines, block = [], []
    for line, is_prose in [*lines_of(markdown), ("", True)]:
        fence = line.lstrip()[:3] in ("```", "~~~") and not is_prose
        if not is_prose:
            block.append(line)
        if is_prose and block or fence and len(block) > 1:
            telling = any(normal(inside) in solutions for inside in block)
            lines += [NO_BLOCK, ""] if telling else block
            block = []
        if is_prose:
            lines.append(line)
    return "\n".join(lines)


def without_links(markdown, path, kept):
    """A lesson without links to files that students do not get."""

    def new(text, target, is_image):
        file = target.split("#")[0]
        if file and not is_external(target):
            whole = Path(path).parent.joinpath(file)
            parts = []
            for part in whole.parts:
                parts = parts[:-1] if part == ".." else [*parts, part]
            whole = "/".join(parts)
            if whole not in kept and not any(k.startswith(f"{whole}/") for k in kept):
                return text
        return f"{'!' * is_image}[{text}]({target})"

    return "\n".join(replace_links(line, new) if is_prose else line
                     for line, is_prose in lines_of(markdown)) + "\n"


# --- labs/ ----------------------------------------------------------------------------------------


def _value(value):
    """A value of TOML on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(v)}" for key, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)


def _tables(name, entries):
    lines = []
    for entry in entries:
        inner = [key for key in ("symptom", "question") if key in entry]
        lines += ["", f"[[{name}]]"]
        lines += [f"{key} = {_value(value)}" for key, value in entry.items() if key not in inner]
        for key in inner:
            lines += _tables(f"{name}.{key}", entry[key])
    return lines


def reduced_lab(text, chosen=True):
    """labs/NN.toml without planted mistakes and, in a chosen stage, exact hints and answers."""
    exercises = tomllib.loads(text).get("exercise", [])
    for exercise in exercises:
        for symptom in exercise.get("symptom", []):
            symptom.pop("mutants", None)
        if not chosen:
            continue
        exercise["hints"][-1] = LAST_HINT
        for question in exercise.get("question", []):
            question.pop("wrong", None)
            if "answer" in question:
                question["kind"] = "later"
                for key in ("answer", "within"):
                    question.pop(key, None)
    return "\n".join([text.split("\n", 1)[0], *_tables("exercise", exercises)]) + "\n"


def reduced_symptoms(text):
    entries = tomllib.loads(text)["symptom"]
    for entry in entries:
        entry.pop("mutants", None)
    return "\n".join([text.split("\n", 1)[0], *_tables("symptom", entries)]) + "\n"


# --- the package ----------------------------------------------------------------------------------


def survivors(folder, solutions):
    """[(path, line number, exercise)] of what is still to be read of a solution."""
    found = []
    for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        try:
            lines = path.read_text().split("\n")
        except UnicodeDecodeError:
            continue
        found += [(str(path.relative_to(folder)), number, solutions[normal(line)])
                  for number, line in enumerate(lines, 1) if normal(line) in solutions]
    return found


def hand_out(root, out, stages):
    """Writes the package; returns the number of its files."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Problem(f"{out} is there and not an empty folder")
    exercises = {number: e for stage in stages for number, e in stage_data.load(root, stage).items()}
    gaps = {path: text for stage in stages for path, text in files_with_gaps(root, stage).items()}
    solutions = solution_lines(root, stages)
    own = dict(solutions)  # a stage's lesson shows no line of it, also where later stages repeat it
    for line in common_lines(root, stages):
        solutions.pop(line, None)
    kept = [path for path in files_of(root) if not path.startswith(LEFT_OUT)]
    if inside := [path for path in kept if (root / path).resolve().is_relative_to(out.resolve())]:
        raise Problem(f"{out} holds the course itself, {inside[0]}")
    chosen_labs = {f"{stage_data.FOLDER}/{stage[:2]}.toml" for stage in stages}
    for path in kept:
        target = out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path in gaps:
            target.write_text(handed_out(gaps[path], exercises, path))
        elif path == f"{stage_data.FOLDER}/common.toml":
            target.write_text(reduced_symptoms((root / path).read_text()))
        elif path.startswith(f"{stage_data.FOLDER}/"):
            target.write_text(reduced_lab((root / path).read_text(), path in chosen_labs))
        elif path.endswith(".md"):
            mine = {line for line, number in own.items()
                    if stage_data.exercise_called(root, number)[0] == path.split("/")[0]}
            text = without_solutions((root / path).read_text(), solutions.keys() | mine)
            target.write_text(without_links(text, path, set(kept)))
        else:
            shutil.copyfile(root / path, target)
        if path not in gaps:
            shutil.copymode(root / path, target)
    if left := survivors(out, solutions):
        path, number, exercise = left[0]
        raise Problem(f"{path}:{number} shows a line of the solution of {exercise}, "
                      f"{len(left)} lines in all; {out} is not to be handed out")
    return len(kept)


def main(arguments):
    parser = argparse.ArgumentParser(prog="./course handout",
                                     description="Writes the students' package: gaps, no solutions.")
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder that is new or empty")
    parser.add_argument("--stages", metavar="01,04",
                        help="gaps in these alone; the others keep their solutions (all)")
    options = parser.parse_args(arguments)
    stages = stage_data.labs(ROOT)
    if options.stages:
        stages = sorted({stage_data.stage_called(ROOT, name) for name in options.stages.split(",")})
    count = hand_out(ROOT, options.out, stages)
    print(f"{options.out}: {count} files, gaps in {', '.join(s[:2] for s in stages)}; no line of a "
          "solution is left that sources do not have elsewhere")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Problem, OSError) as problem:
        print(f"handout: {problem}", file=sys.stderr)
        sys.exit(2)
