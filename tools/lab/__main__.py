"""The commands of ./course lab."""

import argparse
import os
import sys
import textwrap
from pathlib import Path

from mutant_list import Problem
from sources import ROOT

from lab import answers, prove, report, stage_data
from lab.build import LabBuild
from lab.check import check_exercise
from lab.progress import Progress
from lab.student_tree import StudentTree, gaps

DEFAULT_TREE = "my"
FAILED, BLOCKED = 1, 77  # the status of a check that failed, or that nothing could be checked

EPILOG = """docs/labs.md shows how a lab goes. STAGE is 04, 4 or ring_allreduce, EXERCISE is 4.2."""


def say(text=""):
    print(text, flush=True)


def exercises_called(root, name):
    """[(stage, exercise)] of a stage or an exercise."""
    if "." in name:
        return [stage_data.exercise_called(root, name)]
    stage = stage_data.stage_called(root, name)
    return [(stage, exercise) for exercise in stage_data.load(root, stage).values()]


def state(tree, progress, stage, exercise):
    entry = progress.of(exercise.number)
    if not tree.started(stage) and not entry["checks"]:
        return "-"
    words = "passed" if entry["passed"] else entry["verdict"] or "open"
    if entry["hints"]:
        words += f", {entry['hints']} of 3 hints"
    return words + (", gave up" if entry["gave_up"] else "")


def list_exercises(tree, _options):
    progress, rows = Progress(tree), [("exercise", "points", "", "state")]
    for stage in stage_data.labs(tree.root):
        for number, exercise in stage_data.load(tree.root, stage).items():
            rows.append((number, str(exercise.points), exercise.title,
                         state(tree, progress, stage, exercise)))
    say(report.table(rows))
    return 0


def start(tree, options):
    stage = stage_data.stage_called(tree.root, options.what)
    made = tree.start(stage)
    exercises = stage_data.load(tree.root, stage)
    path = tree.folder / answers.FILE
    old = path.read_text() if path.is_file() else ""
    new = answers.add_blanks(old, exercises.values())
    if any(e.questions for e in exercises.values()) and new != old:
        tree.write(answers.FILE, new)
        made.append(answers.FILE)
    places = gaps(tree.root, stage)
    for number, exercise in exercises.items():
        files = places.get(number, []) + ([answers.FILE] if exercise.questions else [])
        where = ", ".join(map(tree.name, files))
        say(f"{number}  {exercise.title}: {where}")
    say(f"\nfiles made: {len(made)}; those that were there stay as they are. Edit what stands between\n"
        f"the marker lines, then: ./course lab check {next(iter(exercises))}")
    return 0


def lab_build(tree, options, stage):
    stages = [stage]
    if options.use_mine:
        stages = [s for s in stage_data.labs(tree.root) if s <= stage and tree.started(s)]
    return stages, LabBuild(tree.root, stages, options.preset, options.build,
                            options.reference)


def check(tree, options):
    progress, common = Progress(tree), stage_data.common_symptoms(tree.root)
    if options.what:
        chosen = exercises_called(tree.root, options.what)
    else:
        chosen = [pair for stage in stage_data.labs(tree.root) if tree.started(stage)
                  for pair in exercises_called(tree.root, stage[:2])]
        if not chosen:
            raise Problem(f"no lab in {tree.folder}; ./course lab start STAGE begins one")
    results = []
    for stage, exercise in chosen:
        tree.need(stage)
        stages, build = lab_build(tree, options, stage)
        results.append(result := check_exercise(tree, build, stage, exercise, common, stages))
        progress.checked(result)
        say("\n".join([*report.lines(result), ""]))
    if len(results) > 1:
        say(report.summary(results))
    if any(result.verdict == "fail" for result in results):
        return FAILED
    return BLOCKED if any(result.verdict == "blocked" for result in results) else 0


def hint(tree, options):
    _, exercise = stage_data.exercise_called(tree.root, options.what)
    number, text = Progress(tree).next_hint(exercise)
    say(f"{exercise.number} {exercise.title}, hint {number} of {len(exercise.hints)}:")
    say("\n".join(textwrap.wrap(text, report.WIDTH, break_on_hyphens=False)))
    return 0


def reset(tree, options):
    stage, exercise = stage_data.exercise_called(tree.root, options.what)
    done = tree.reset(stage, exercise.number)
    if exercise.questions:
        path = tree.folder / answers.FILE
        old = path.read_text() if path.is_file() else ""
        backup = tree.back_up(answers.FILE, old)
        tree.write(answers.FILE, answers.add_blanks(answers.without(old, exercise.number), [exercise]))
        done.append((answers.FILE, backup))
    for path, backup in done:
        say(f"{tree.name(path)}: {exercise.number} is as at the start; what was there: "
            f"{tree.name(backup)}")
    return 0


def solution(tree, options):
    stage, exercise = stage_data.exercise_called(tree.root, options.what)
    progress = Progress(tree)
    if options.give_up:
        progress.note(exercise.number, gave_up=True)
    if not progress.may_see_solution(exercise.number):
        raise Problem(f"{exercise.number} has not passed yet. ./course lab hint {exercise.number} "
                      f"has hints; --give-up shows the solution, and progress.json keeps that")
    if exercise.questions:
        _, build = lab_build(tree, options, stage)
        for key, answer in answers.right_answers(build, exercise).items():
            say(f"{key} = {answers.as_word(answer)}")
    for path, lines in tree.solutions(stage, exercise.number):
        say("\n".join([f"{path}:", *lines]))
    return 0


def update(tree, options):
    stages = [s for s in stage_data.labs(tree.root) if tree.started(s)]
    if options.what:
        stages = [stage_data.stage_called(tree.root, options.what)]
        tree.need(stages[0])
    done = [pair for stage in stages for pair in tree.update(stage)]
    for path, what in done:
        say(f"{tree.name(path)}: {what}")
    say(f"{len(done)} files differ from what was given out" if done else "nothing to update")
    return FAILED if any(what.startswith("left") for _, what in done) else 0


def prove_labs(tree, options):
    chosen = (exercises_called(tree.root, options.what) if options.what else
              [p for s in stage_data.labs(tree.root) for p in exercises_called(tree.root, s[:2])])
    good, rows = True, [("exercise", "what", "verdict", "tests")]
    for stage in dict.fromkeys(stage for stage, _ in chosen):
        build = LabBuild(tree.root, [stage], options.preset,
                         options.build or tree.root / "build/lab" / options.preset / f"prove-{stage[:2]}")
        prover = prove.Prover(tree.root, build, stage, say)
        good &= prover.run(tree, {e.number for s, e in chosen if s == stage})
        rows += prover.rows
    bad = sum(row[2] not in prove.GOOD for row in rows[1:])
    say("\n" + report.table(rows))
    say(f"prove: {len(rows) - 1} rows, {bad} not as they must be")
    return 0 if good else FAILED


COMMANDS = {
    "list": (list_exercises, None, "exercises, points and how far you are"),
    "start": (start, "STAGE", "make the files to work on"),
    "check": (check, "[STAGE|EXERCISE]", "build what you wrote and test it"),
    "hint": (hint, "EXERCISE", "the next of three hints, from vague to exact"),
    "reset": (reset, "EXERCISE", "put the gap back; what you wrote is kept in backup/"),
    "solution": (solution, "EXERCISE", "show it, after passing or with --give-up"),
    "update": (update, "[STAGE]", "bring changes of the course around your gaps"),
    "prove": (prove_labs, "[STAGE|EXERCISE]", "for who teaches: gaps fail, solutions pass, mistakes are caught"),
}


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="./course lab", epilog=EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--tree", default=os.environ.get("DDP_LAB_TREE", DEFAULT_TREE), metavar="FOLDER",
                        help=f"where your files are ({DEFAULT_TREE}/, or the variable DDP_LAB_TREE)")
    built = argparse.ArgumentParser(add_help=False)
    built.add_argument("--preset", default=os.environ.get("DDP_PRESET") or "sim",
                       choices=("sim", "cuda", "asan", "tsan"), help="the build (sim)")
    built.add_argument("--build", metavar="FOLDER", help="build there, not in build/lab")
    built.add_argument("--reference", metavar="FOLDER",
                       help="the build to take earlier stages from, made where it is missing (build/PRESET)")
    built.add_argument("--use-mine", action="store_true",
                       help="stand on your own earlier stages, not on the reference's")
    for name, (_, what, text) in COMMANDS.items():
        parents = [common, built] if name in ("check", "prove", "solution") else [common]
        command = commands.add_parser(name, parents=parents, help=text, description=text)
        if what:
            command.add_argument("what", nargs="?" if what[0] == "[" else None, default="",
                                 metavar=what.strip("[]"))
        if name == "solution":
            command.add_argument("--give-up", action="store_true", help="also without passing")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse_arguments(arguments)
    tree = StudentTree(ROOT, Path(options.tree) if os.path.isabs(options.tree)
                       else ROOT / options.tree)
    return COMMANDS[options.command][0](tree, options)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Problem as problem:
        print(f"lab: {problem}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
