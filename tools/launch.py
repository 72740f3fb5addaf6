#!/usr/bin/env python3
"""Starts a program as the ranks of a job: mpirun with what this course needs, and no trace left.

    tools/launch.py -n 4 [--timeout SECONDS] [--mca NAME VALUE]... PROGRAM [ARGUMENT]...

It lets the threads of a rank run on every core, lets there be more ranks than cores, and allows
root only where the user is root. The status is that of the job: that of the first rank that failed,
128 + signal where a signal ended one, 124 after the time limit. SIGINT and SIGTERM ask the ranks to
stop after their step (they get a SIGINT); a second one ends the job. Whatever happens, no process
and no file of the job is left, and files of other jobs are not touched.
"""

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TIMED_OUT = 124  # as of timeout(1)
DEADLY = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL,
          signal.SIGSEGV, signal.SIGTERM}
GRACE = 3  # seconds between asking and killing; mpirun itself takes one
SHARED_MEMORY = Path("/dev/shm")

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # of prctl(2)
prctl = ctypes.CDLL(None, use_errno=True).prctl


def say(text):
    print(f"launch: {text}", file=sys.stderr, flush=True)


def positive(text):
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def ranks(text):
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def read_arguments(arguments):
    parser = argparse.ArgumentParser(prog="launch.py", description=__doc__.split("\n", 1)[0])
    parser.add_argument("-n", type=ranks, required=True, metavar="RANKS", help="how many, from 1")
    parser.add_argument("--timeout", type=positive, metavar="SECONDS", help="then the job is ended")
    parser.add_argument("--mca", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
                        help="a setting of Open MPI, passed on")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


def mpirun_command(mpirun, wanted, folder, shared_folder):
    """Everything between `mpirun` and the program's own arguments."""
    command = [mpirun, "--quiet", "--bind-to", "none", "--oversubscribe", "-n", str(wanted.n)]
    settings = {"orte_tmpdir_base": str(folder)}
    if shared_folder:
        settings["btl_vader_backing_directory"] = str(shared_folder)
    if wanted.n > len(os.sched_getaffinity(0)):
        settings["mpi_yield_when_idle"] = "1"
    settings.update({name: value for name, value in wanted.mca})
    for name, value in settings.items():
        command += ["--mca", name, value]
    return command + [wanted.program, *wanted.arguments]


def environment():
    variables = dict(os.environ)
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        variables.pop(name, None)
        if os.geteuid() == 0:
            variables[name] = "1"
    return variables


def children_of_all():
    """{process: [its children]} of this machine."""
    children = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended meanwhile
            continue
        if state != "Z":
            children.setdefault(int(parent), []).append(int(folder.name))
    return children


def descendants(process):
    children = children_of_all()
    found, todo = [], [process]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def send(processes, number):
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


def kill_all():
    """Ends all that descend from us. Orphans are ours too: we are the reaper of our descendants."""
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline:
        left = descendants(os.getpid())
        if not left:
            return
        send(left, signal.SIGKILL)
        time.sleep(0.01)
    say(f"processes that cannot be killed: {' '.join(map(str, left))}")


class Job:
    def __init__(self, command):
        self.signals = 0
        # In a session of its own, so that a terminal's ^C comes to us alone. If we are killed the
        # kernel tells mpirun, which then ends the ranks.
        parent = os.getpid()

        def die_with_parent():
            prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

        prctl(PR_SET_CHILD_SUBREAPER, 1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.pass_on)
        self.process = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL,
                                        start_new_session=True, preexec_fn=die_with_parent)

    def pass_on(self, _number, _frame):
        """mpirun would give the ranks one second; they get the time to finish their step."""
        self.signals += 1
        if self.signals == 1:
            send(children_of_all().get(self.process.pid, []), signal.SIGINT)
        else:
            send([self.process.pid], signal.SIGTERM)

    def wait(self, limit):
        """The status as a shell has it, or None where the limit came first."""
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        return 128 - status if status < 0 else status

    def end(self):
        send([self.process.pid], signal.SIGTERM)
        self.wait(GRACE)
        kill_all()
        self.process.wait()


def main(arguments):
    wanted = read_arguments(arguments)
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        say("no mpirun on the PATH; Debian and Ubuntu have it in openmpi-bin (./course setup)")
        return 1
    if shutil.which(wanted.program) is None:
        say(f"no program {wanted.program}")
        return 1
    # All files of the job go to folders of its own: to remove them needs no guess.
    with tempfile.TemporaryDirectory(prefix="ddp.") as folder:
        shared_folder = None
        if os.access(SHARED_MEMORY, os.W_OK):
            shared_folder = tempfile.mkdtemp(prefix="ddp_job.", dir=SHARED_MEMORY)
        try:
            job = Job(mpirun_command(mpirun, wanted, folder, shared_folder))
            status = job.wait(wanted.timeout)
            if status is None:
                say(f"{wanted.program}: not done after {wanted.timeout:g} s; the job is ended")
                job.end()
                status = TIMED_OUT
            elif status - 128 in DEADLY and not job.signals:
                say(f"{wanted.program}: a rank was ended by {signal.Signals(status - 128).name}")
            kill_all()
        finally:
            if shared_folder:
                shutil.rmtree(shared_folder, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
