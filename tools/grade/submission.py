"""Takes what may be graded out of a submission: a folder, a .zip or a .tar.gz.

What counts are the files that have gaps, and answers.toml; tests, tools and all else of a submission are not looked at. Only
regular files are taken, of a size that a person can have written, and each is read, never unpacked to where it
says. A submission may be the tree my/, a folder with my/ in it, the whole course with its gaps filled, or any of these one
folder down, as archives have it.
"""

import gzip
import io
import os
import stat
import tarfile
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from mutant_list import Problem

MOST_BYTES = 512 * 1024  # of a file
MOST_MEMBERS = 20000  # of an archive
MOST_UNPACKED = 256 * 1024 * 1024  # of a .tar.gz, which has to be read from its beginning


@dataclass
class Submission:
    files: dict = field(default_factory=dict)  # {path: text}
    refused: dict = field(default_factory=dict)  # {path: why}


def _text(data):
    if len(data) > MOST_BYTES:
        raise Problem(f"larger than {MOST_BYTES // 1024} KiB")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Problem("not UTF-8") from error
    if "\0" in text:
        raise Problem("not a text")
    return text.replace("\r\n", "\n")


class _Folder:
    def __init__(self, path):
        self.path = path

    def names(self):
        """Of the first levels: enough to know where the files are."""
        found = []
        for folder, folders, files in os.walk(self.path, followlinks=False):
            depth = len(Path(folder).relative_to(self.path).parts)
            folders[:] = [f for f in folders if depth < 3 and f not in (".git", "build")]
            links = [f for f in os.listdir(folder) if os.path.islink(os.path.join(folder, f))]
            found += [os.path.relpath(os.path.join(folder, f), self.path) for f in {*files, *links}]
            if len(found) > MOST_MEMBERS:
                raise Problem(f"more than {MOST_MEMBERS} files")
        return set(found)

    def read(self, name):
        """Opens folder by folder, so that no link leads anywhere else."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            *folders, last = name.split("/")
            for part in folders:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
            file = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            with os.fdopen(file, "rb") as opened:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise Problem("not a regular file")
                return opened.read(MOST_BYTES + 1)
        except OSError as error:
            raise Problem("a link, or not readable") from error
        finally:
            os.close(folder)


def _clean(name):
    """A member's path, or None where it leads out of the archive."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if name.startswith("/") or ".." in parts or "\\" in name else "/".join(parts)


class _Zip:
    def __init__(self, path):
        try:
            self.archive = zipfile.ZipFile(path)
            members = self.archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise Problem(f"no archive that can be read: {error}") from error
        if len(members) > MOST_MEMBERS:
            raise Problem(f"more than {MOST_MEMBERS} files")
        self.members = {name: m for m in reversed(members) if not m.is_dir() and (name := _clean(m.filename))}

    def names(self):
        return set(self.members)

    def read(self, name):
        member = self.members[name]
        mode = member.external_attr >> 16
        if mode and stat.S_IFMT(mode) and not stat.S_ISREG(mode):
            raise Problem("not a regular file")
        try:
            with self.archive.open(member) as opened:
                return opened.read(MOST_BYTES + 1)
        except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, NotImplementedError, EOFError) as error:
            raise Problem(f"cannot be read: {error}") from error


class _Tar:
    """Read once, from the beginning: what a few kilobytes grow to is bounded."""

    def __init__(self, path, wanted):
        self.found, self.odd = {}, set()
        try:
            with gzip.open(path) as unpacked:
                data = unpacked.read(MOST_UNPACKED + 1)
            if len(data) > MOST_UNPACKED:
                raise Problem(f"more than {MOST_UNPACKED >> 20} MiB unpacked")
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
                for count, member in enumerate(archive):
                    if count > MOST_MEMBERS:
                        raise Problem(f"more than {MOST_MEMBERS} files")
                    name = _clean(member.name)
                    if not name or member.isdir() or not any(name.endswith(w) for w in wanted):
                        continue
                    if not member.isreg():
                        self.odd.add(name)
                    elif name not in self.found:
                        self.found[name] = archive.extractfile(member).read(MOST_BYTES + 1)
        except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
            raise Problem(f"no archive that can be read: {error}") from error

    def names(self):
        return set(self.found) | self.odd

    def read(self, name):
        if name in self.odd:
            raise Problem("not a regular file")
        return self.found[name]


def _opened(path, wanted):
    if path.is_dir():
        return _Folder(path)
    if not path.is_file():
        raise Problem(f"{path}: no such submission")
    if path.name.endswith(".zip"):
        return _Zip(path)
    if path.name.endswith((".tar.gz", ".tgz")):
        return _Tar(path, wanted)
    raise Problem(f"{path.name}: a folder, a .zip or a .tar.gz is wanted")


def _beginning(names, wanted):
    """What stands before the paths in this submission: my/ counts more than the course around it."""
    tops = sorted({name.split("/")[0] + "/" for name in names if "/" in name})
    for before in ("my/", *(top + "my/" for top in tops), "", *tops):
        if any(before + path in names for path in wanted):
            return before
    return ""


def take(path, wanted):
    """Submission with those of the paths `wanted` that are there."""
    source = _opened(Path(path), wanted)
    names = source.names()
    before, taken = _beginning(names, wanted), Submission()
    for name in wanted:
        if before + name in names:
            try:
                taken.files[name] = _text(source.read(before + name))
            except Problem as problem:
                taken.refused[name] = str(problem)
    return taken
