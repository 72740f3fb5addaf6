"""What ./course doctor finds of the machine: cores, memory, shared memory, container, WSL."""

import os
import re
from pathlib import Path

from finding import NOTE, OK, Finding


def physical_cores():
    """Cores that this process may use, hardware threads of one counted once, as by mpirun."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        try:
            siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
            cores.add(siblings.read_text())
        except OSError:
            cores.add(str(cpu))
    return len(cores)


def memory_bytes():
    """(memory of the machine, limit of this container or None)."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limit = Path(name).read_text().strip()
        except OSError:
            continue
        if limit.isdigit() and int(limit) < total:
            return total, int(limit)
    return total, None


def shared_memory():
    """/dev/shm carries MPI's messages inside a machine."""
    try:
        status = os.statvfs("/dev/shm")
    except OSError:
        return Finding(NOTE, "/dev/shm", "is not there; MPI's ranks then exchange messages slowly",
                       "mount a tmpfs there")
    mebibytes = status.f_blocks * status.f_frsize // 2**20
    free = status.f_bavail * status.f_frsize // 2**20
    told = f"{mebibytes} MiB, {free} free"
    if mebibytes <= 64 or free <= 64:
        return Finding(NOTE, "/dev/shm", told + ": little for several ranks (64 MiB is a "
                                                "container's default)",
                       "docker run --shm-size=1g; files that killed runs left there can go")
    return Finding(OK, "/dev/shm", told)


def in_container():
    marks = ("/.dockerenv", "/run/.containerenv")
    if any(os.path.exists(mark) for mark in marks) or os.environ.get("container"):
        return True
    try:
        groups = Path("/proc/1/cgroup").read_text()
        return bool(re.search(r"docker|containerd|kubepods|lxc", groups))
    except OSError:
        return False


def in_wsl(version_file="/proc/version"):
    try:
        return "microsoft" in Path(version_file).read_text().lower()
    except OSError:
        return False


def machine():
    usable = len(os.sched_getaffinity(0))
    yield Finding(OK, "cores", f"{physical_cores()}, {usable} hardware threads usable")
    total, limit = memory_bytes()
    least = min(total, limit or total)
    told = f"{total / 2**30:.1f} GiB" + (f", limited to {limit / 2**30:.1f}" if limit else "")
    if least < 2 * 2**30:
        yield Finding(NOTE, "memory", told + ": little for compiling on several cores",
                      "build with fewer jobs: cmake --build --preset sim -j 1")
    else:
        yield Finding(OK, "memory", told)
    yield shared_memory()
    yield Finding(OK, "container", "yes" if in_container() else "no")
    yield Finding(OK, "WSL", "yes; keep the project inside Linux's file system, /mnt/c is slow"
                  if in_wsl() else "no")
