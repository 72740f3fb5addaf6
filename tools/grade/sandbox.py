"""Runs a program that nobody trusts, within limits.

It has a session and a process group of its own. The kernel bounds what one process may do (address space, size of a
file, processor time, core files, number of processes of its user); a watch adds up what all of them do, ten
times a second, and ends them all at the first limit. Where we are root the program gets a user of its own, who may write
to its scratch folder only. What is left of it is killed, however it has detached itself: orphans come to us
(PR_SET_CHILD_SUBREAPER).

That is no wall. The program reads what that user may read, and may use the network. Whoever does not trust the students with
that runs the whole grader in a container (docs/grading.md).
"""

import ctypes
import os
import resource
import signal
import stat
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
PR_SET_CHILD_SUBREAPER = 36  # of prctl(2)
USERS = range(52000, 60000)  # numbers that no account of Debian has
EVERY = 0.1  # seconds


@dataclass(frozen=True)
class Limits:
    seconds: float = 60
    memory: int = 3072 * MIB  # of all processes together, resident
    address_space: int = 64 * 1024 * MIB  # of each; far more than it uses, for what is only reserved
    processes: int = 256  # and threads, together
    file: int = 256 * MIB  # each
    output: int = 1 * MIB  # is kept; a program that writes eight times as much is ended


@dataclass(frozen=True)
class Ran:
    status: int | None  # negative: a signal; None where a limit ended it
    output: str
    seconds: float
    ended: str = ""  # by which limit


def become_reaper():
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def free_user():
    """A user that has no process, or None where we may not change ours."""
    if os.geteuid() != 0:
        return None
    used = set()
    for process in _processes():
        try:
            used.add(os.stat(f"/proc/{process}").st_uid)
        except OSError:
            pass
    first = os.getpid() % len(USERS)  # graders that start together do not choose the same
    return next(user for user in (*USERS[first:], *USERS[:first]) if user not in used)


def closed_folder(path):
    """The folder on the way to `path` that the user of free_user() may not enter, or None."""
    if os.geteuid() != 0:
        return None
    path = Path(path).resolve()
    return next((folder for folder in (*reversed(path.parents), path)
                 if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH), None)


def _processes():
    """{process: (parent, resident bytes, threads, state)} of this machine."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            found[int(entry)] = (int(fields[1]), int(fields[21]) * resource.getpagesize(),
                                 int(fields[17]), fields[0])
    return found


def _below(roots, processes):
    children = {}
    for process, (parent, *_) in processes.items():
        children.setdefault(parent, []).append(process)
    found, todo = [], list(roots)
    while todo:
        process = todo.pop()
        if process in processes:
            found.append(process)
        todo += children.get(process, [])
    return found


class _Family:
    """A program and all that came of it. Our other children are not of it."""

    def __init__(self, process, others, user):
        self.process, self.others, self.user = process, others, user

    def members(self):
        processes = _processes()
        mine = [p for p, (parent, *_) in processes.items()
                if parent == os.getpid() and p not in self.others]
        return {p: processes[p] for p in _below(mine, processes) if processes[p][3] != "Z"}

    def kill(self):
        """Ends all. With a user of their own at one blow; else each is stopped first, so that none makes new
        ones while others are looked for."""
        if self.user is not None:
            if (child := os.fork()) == 0:
                try:
                    os.setgroups([])
                    os.setgid(self.user)
                    os.setuid(self.user)
                    os.kill(-1, signal.SIGKILL)  # all of this user's, none of anybody else's
                finally:
                    os._exit(0)
            try:
                os.waitpid(child, 0)
            except ChildProcessError:
                pass
        deadline = time.monotonic() + 10
        while (members := self.members()) and time.monotonic() < deadline:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for member in members:
                    try:
                        os.kill(member, number)
                    except ProcessLookupError:
                        pass
            self.reap()
            time.sleep(0.01)

    def reap(self):
        """Takes the status of orphans that came to us."""
        for process, (parent, *_rest, state) in _processes().items():
            if (parent == os.getpid() and state == "Z" and process != self.process.pid
                    and process not in self.others):
                try:
                    os.waitpid(process, os.WNOHANG)
                except ChildProcessError:
                    pass


class _Output:
    """Reads a pipe to its end and keeps the first part and the last."""

    def __init__(self, pipe, most):
        self.pipe, self.most = pipe, most
        self.head, self.tail, self.count = b"", b"", 0
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while block := os.read(self.pipe.fileno(), 65536):
            self.count += len(block)
            if len(self.head) < self.most // 2:
                self.head += block
            else:
                self.tail = (self.tail + block)[-self.most // 2:]

    def text(self):
        self.thread.join(5)
        text = self.head.decode(errors="replace")
        if left_out := self.count - len(self.head) - len(self.tail):
            text += f"\n... {left_out} bytes of output are left out ...\n"
        return text + self.tail.decode(errors="replace")


def run(command, limits, environment, user=None, folder=None):
    """Ran of a command. `folder` becomes its working folder."""
    become_reaper()
    others = {p for p, (parent, *_) in _processes().items() if parent == os.getpid()}
    most_processes = 2 * limits.processes  # beyond what the watch allows, which says so
    if user is None:  # the limit counts all that our user has
        most_processes += sum(threads for _, (_, _, threads, _) in _processes().items())

    def restrict():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file, limits.file))
        resource.setrlimit(resource.RLIMIT_AS, (limits.address_space, limits.address_space))
        seconds = int(limits.seconds * 4) + 5  # of processor time, for one process
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_NPROC, (most_processes, most_processes))
        os.nice(10)  # the watch comes first
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)

    begin = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                               cwd=folder, start_new_session=True, preexec_fn=restrict)
    output, family, ended = _Output(process.stdout, limits.output), _Family(process, others, user), ""
    while process.poll() is None and not ended:
        members = family.members().values()
        if sum(memory for _, memory, _, _ in members) > limits.memory:
            ended = f"more than {limits.memory // MIB} MiB of memory"
        elif sum(threads for _, _, threads, _ in members) > limits.processes:
            ended = f"more than {limits.processes} processes and threads"
        elif output.count > 8 * limits.output:
            ended = f"more than {8 * limits.output // MIB} MiB of output"
        elif time.monotonic() - begin > limits.seconds:
            ended = f"not done after {limits.seconds:g} s"
        else:
            time.sleep(min(EVERY, 0.005 + (time.monotonic() - begin) / 20))
    family.kill()
    status = process.wait()
    family.reap()
    text = output.text()
    process.stdout.close()
    return Ran(None if ended else status, text, time.monotonic() - begin, ended)


class Scratch:
    """A folder that the program's user may write to, gone at the end."""

    def __init__(self, user):
        self.user = user

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ddp-grade.", ignore_cleanup_errors=True)
        path = Path(self.folder.name)
        if self.user is not None:
            os.chown(path, self.user, self.user)
        return path

    def __exit__(self, *_):
        self.folder.cleanup()
