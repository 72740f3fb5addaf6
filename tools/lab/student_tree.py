"""The files that a student works on.

The tree has the reference's files that have gaps, at the same paths from the root of the project,
and nothing else of it: all that they include comes from the reference. Beside them lie

    answers.toml    predictions and numbers (answers.py)
    progress.json   what was passed, hinted, given up (progress.py)
    .base/          each file as it was given out: what an update merges with
    backup/         what reset and update took away
"""

from pathlib import Path

from mutant_list import Problem
from sources import source_files

from lab import regions, stage_data

HEADERS = {False: "common/not_implemented.hpp", True: "common/cuda/not_implemented.cuh"}


def files_with_gaps(root, stage):
    """{path from the root: text} of the reference's files that have marked regions."""
    texts = {str(p.relative_to(root)): p.read_text() for p in source_files(root, [stage])}
    return {path: text for path, text in texts.items() if regions.regions(text, path)}


def gaps(root, stage):
    """{exercise's number: [paths]}."""
    found = {}
    for path, text in files_with_gaps(root, stage).items():
        for region in regions.regions(text, path).values():
            found.setdefault(region.number, [])
            if path not in found[region.number]:
                found[region.number].append(path)
    return found


def handed_out(text, exercises, path, only=None):
    """A reference's file as a student gets it: a gap for each region, or for those of `only`."""
    bodies, headers = {}, []
    for key, region in regions.regions(text, path).items():
        if only is not None and region.number not in only:
            continue
        if region.number not in exercises:
            raise Problem(f"{path}:{region.line}: exercise {region.number} is not in labs/")
        exercise = exercises[region.number]
        bodies[key] = regions.stub(region, exercise.task, exercise.kernel)
        headers.append(HEADERS[exercise.kernel])
    return regions.with_includes(regions.with_bodies(text, bodies, path), sorted(set(headers)))


class StudentTree:
    def __init__(self, root, folder):
        self.root, self.folder = Path(root), Path(folder).resolve()

    def name(self, path):
        """A path of the tree as a person in the root of the project would write it."""
        whole = self.folder / path
        return str(whole.relative_to(self.root) if whole.is_relative_to(self.root) else whole)

    def started(self, stage):
        return any((self.folder / path).is_file() for path in files_with_gaps(self.root, stage))

    def need(self, stage):
        if not self.started(stage):
            raise Problem(f"{self.name(stage)} is not there; ./course lab start {stage[:2]} makes it")

    def write(self, path, text):
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def read(self, path):
        try:
            return (self.folder / path).read_text()
        except OSError as error:
            raise Problem(f"{self.name(path)}: {error.strerror}; "
                          "./course lab start puts back what is missing") from error

    def start(self, stage):
        """Makes the files of a stage that are not there yet; returns their paths."""
        exercises, made = stage_data.load(self.root, stage), []
        for path, text in files_with_gaps(self.root, stage).items():
            if not (self.folder / path).exists():
                self.write(path, given := handed_out(text, exercises, path))
                self.write(f".base/{path}", given)
                made.append(path)
        return made

    def back_up(self, path, text):
        """Keeps a text in backup/, under a name that is free; returns its path."""
        number = 1
        while (self.folder / (name := f"backup/{path}.{number}")).exists():
            number += 1
        self.write(name, text)
        return name

    def reset(self, stage, number):
        """Puts the gap of an exercise back; returns [(path, path of what was there)]."""
        self.need(stage)
        exercises, done = stage_data.load(self.root, stage), []
        for path in gaps(self.root, stage).get(number, []):
            given = handed_out(files_with_gaps(self.root, stage)[path], exercises, path)
            mine = self.read(path) if (self.folder / path).exists() else given
            try:
                mine_regions = regions.regions(mine, self.name(path))
                whole = set(mine_regions) != set(regions.regions(given))
            except Problem:
                whole = True  # its markers are damaged
            if whole:
                new = given
            else:
                gap = {key: r.body for key, r in regions.regions(given).items() if r.number == number}
                new = regions.with_bodies(mine, gap)
            done.append((path, self.back_up(path, mine)))
            self.write(path, new)
        return done

    def update(self, stage):
        """Brings the reference's changes outside the gaps; returns [(path, what was done)]."""
        exercises, done = stage_data.load(self.root, stage), []
        for path, text in files_with_gaps(self.root, stage).items():
            given = handed_out(text, exercises, path)
            if not (self.folder / path).exists():
                self.write(path, given)
                done.append((path, "new"))
            elif not (self.folder / ".base" / path).is_file():
                done.append((path, f"left as it is; {self.name('.base')} has lost what it began as"))
                continue
            elif (base := self.read(f".base/{path}")) == given:
                continue
            else:
                mine = self.read(path)
                untouched = {key: given_region.body
                             for key, given_region in regions.regions(given).items()
                             if (r := regions.regions(mine, path).get(key)) and
                             (b := regions.regions(base).get(key)) and r.body == b.body}
                try:
                    new = regions.merge(base, mine, given, self.name(path))
                except Problem as problem:
                    done.append((path, f"left as it is; {problem}"))
                    continue
                new = regions.with_bodies(new, untouched)  # a task in other words
                if new != mine:
                    self.back_up(path, mine)
                    self.write(path, new)
                done.append((path, "updated"))
            self.write(f".base/{path}", given)
        return done

    def solutions(self, stage, number):
        """[(path, lines)] of the reference."""
        texts = files_with_gaps(self.root, stage)
        return [(path, region.body) for path in gaps(self.root, stage).get(number, [])
                for region in regions.regions(texts[path]).values() if region.number == number]

    def bodies(self, stage, number):
        """{path: [lines]} of what the student has in the regions of an exercise."""
        return {path: [line for r in regions.regions(self.read(path), self.name(path)).values()
                       if r.number == number for line in r.body]
                for path in gaps(self.root, stage).get(number, [])}

    def untouched(self, stage, number):
        """Whether a gap of the exercise is as it was given out."""
        return any(regions.is_stub(body) for body in self.bodies(stage, number).values())

    def overlay(self, stage, keep):
        """What lies over the reference to check the exercises `keep`: {path: text}."""
        files = {}
        for path, text in files_with_gaps(self.root, stage).items():
            mine, where = self.read(path), self.name(path)
            if lost := set(regions.regions(text)) - set(regions.regions(mine, where)):
                number = min(lost).split("#")[0]
                raise Problem(f"{where}: the marker lines of exercise {number} are gone; "
                              f"./course lab reset {number} puts them back")
            files[path] = regions.overlay(mine, text, keep, self.folder / path, where)
        return files
