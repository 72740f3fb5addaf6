#!/usr/bin/env python3
"""Says what this machine has of what the course needs, and how to get the rest.

Usage: doctor.py [PACKAGE...]     the packages that must be installed, by Debian's names

A line each: a tick for what is here, a cross and the remedy for what is missing and needed, a
circle for what is missing or odd but not needed to build and run with simulated GPUs. Ends with 1
if anything needed is missing.
"""

import ctypes
import ctypes.util
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import doctor_gpu
import doctor_machine
from finding import MISSING, NOTE, OK, Finding, dotted, install, lines_of, output_of, version_in

LEAST_GXX, LEAST_CMAKE = (11,), (3, 23)
DATA_FILES = tuple(f"{part}-{kind}" for part in ("train", "t10k")
                   for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))


# --- what the preset sim needs --------------------------------------------------------------------


def compiler():
    name = os.environ.get("CXX", "c++" if shutil.which("c++") else "g++")
    version = version_in(output_of([name, "-dumpfullversion", "-dumpversion"]), r"(\d+(?:\.\d+)*)")
    if version is None:
        return Finding(MISSING, "compiler", f"no {name} on the PATH", install("g++"))
    told = f"{name} {dotted(version)}"
    if "clang" in (output_of([name, "--version"]) or ""):
        return Finding(NOTE, "compiler", f"{told} is clang, which nobody has tried",
                       "g++ is what is tested; the variable CXX chooses")
    if version < LEAST_GXX:
        return Finding(MISSING, "compiler", f"{told} is older than {dotted(LEAST_GXX)}",
                       "a newer g++; the variable CXX=g++-12 then names it")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "try.cpp"
        source.write_text("#include <source_location>\n#include <span>\n"
                          "int main() { return std::span<int>().size(); }\n")
        works = output_of([name, "-std=c++20", str(source), "-o", f"{folder}/try"]) is not None
    if not works:
        return Finding(MISSING, "compiler", f"{told} does not compile and link C++20",
                       install("g++", "libstdc++-12-dev"))
    return Finding(OK, "compiler", f"{told}, compiles C++20")


def cmake():
    version = version_in(output_of(["cmake", "--version"]))
    if version is None:
        return Finding(MISSING, "CMake", "not on the PATH", install("cmake"))
    if version < LEAST_CMAKE:
        return Finding(MISSING, "CMake", f"{dotted(version)} is older than {dotted(LEAST_CMAKE)}",
                       "a newer one, of your distribution or from cmake.org")
    return Finding(OK, "CMake", dotted(version))


def ninja():
    version = version_in(output_of(["ninja", "--version"]))
    if version is None:
        return Finding(MISSING, "ninja", "not on the PATH", install("ninja-build"))
    return Finding(OK, "ninja", dotted(version))


def packages(names):
    """Whether dpkg knows each package as installed; a line in all, or one a missing package."""
    if not names:
        return []
    if shutil.which("dpkg-query") is None:
        return [Finding(NOTE, "packages", "no dpkg here, so nobody can say",
                        "install what corresponds to: " + " ".join(names))]
    missing = [name for name in names
               if output_of(["dpkg-query", "-W", "-f", "${db:Status-Status}", name]) != "installed"]
    if not missing:
        return [Finding(OK, "packages", f"all {len(names)} that the build needs")]
    return [Finding(MISSING, "package", f"{name} is not installed", install(name))
            for name in missing]


def mpi():
    """mpirun, its version, whether root may use it, how many ranks it starts, what it can send."""
    text = output_of(["mpirun", "--version"], OMPI_ALLOW_RUN_AS_ROOT="1",
                     OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if text is None:
        yield Finding(NOTE, "MPI", "no mpirun on the PATH: needed from stage 03 on",
                      install("openmpi-bin", "libopenmpi-dev"))
        return
    version = version_in(text)
    if "Open MPI" not in text:
        yield Finding(NOTE, "MPI", f"{text.splitlines()[0]} is not Open MPI, which is tried",
                      install("openmpi-bin", "libopenmpi-dev"))
        return
    yield Finding(OK, "MPI", f"Open MPI {dotted(version or ())}")
    allowed = all(os.environ.get(name) == "1" for name in
                  ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"))
    if os.geteuid() == 0 and not allowed:
        yield Finding(NOTE, "MPI as root", "you are root, and mpirun refuses to run as root",
                      "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 (for "
                      "mpirun by hand), or be another user")
    slots = doctor_machine.physical_cores()
    yield Finding(OK, "MPI slots",
                  f"{slots} (one a core); more ranks need mpirun --oversubscribe")
    parameters = output_of(["ompi_info", "--parsable", "-l", "9", "--all"]) or ""
    match = re.search(r"mpi_built_with_cuda_support:value:(\w+)", parameters)
    if match is None:
        yield Finding(NOTE, "MPI and CUDA", "ompi_info does not say whether it is CUDA-aware",
                      "none needed: messages go through host memory unless it says yes")
    elif match[1] == "true":
        yield Finding(OK, "MPI and CUDA", "CUDA-aware: it may take device pointers")
    else:
        yield Finding(OK, "MPI and CUDA", "not CUDA-aware, as most; messages take host memory")


def blas():
    """Whether a program finds CBLAS, which stands behind cuBLAS on simulated GPUs."""
    for name in ("openblas", "cblas", "blas"):
        path = ctypes.util.find_library(name)
        try:
            library = ctypes.CDLL(path) if path else None
        except OSError:
            library = None
        if library is not None and hasattr(library, "cblas_sgemm"):
            return Finding(OK, "BLAS", f"{path} has cblas_sgemm")
    return Finding(MISSING, "BLAS", "no library with cblas_sgemm", install("libopenblas-dev"))


# --- data -----------------------------------------------------------------------------------------


def data_folder():
    return Path(os.environ.get("DDP_DATA_DIR", "/usr/share/datasets")) / "fashion-mnist"


def missing_data():
    """Names of Fashion-MNIST's files that nobody can read here, plain or with .gz."""
    def readable(name):
        return any(path.is_file() and os.access(path, os.R_OK)
                   for path in (data_folder() / name, data_folder() / f"{name}.gz"))
    return [name for name in DATA_FILES if not readable(name)]


def data():
    missing = missing_data()
    if not missing:
        return Finding(OK, "data", f"Fashion-MNIST in {data_folder()}")
    return Finding(NOTE, "data",
                   f"Fashion-MNIST: {', '.join(missing)} cannot be read in {data_folder()}: "
                   "./course demo and some tests want it",
                   install("dataset-fashion-mnist") + "; or set DDP_DATA_DIR to the folder that "
                   "holds fashion-mnist/; or train with --data synthetic")


# --- plots and the report -----------------------------------------------------------------------


def matplotlib():
    version = output_of([sys.executable, "-c", "import matplotlib as m; print(m.__version__)"])
    if version is None:
        return Finding(NOTE, "matplotlib", f"{sys.executable} has none; it only draws plots",
                       install("python3-matplotlib"))
    return Finding(OK, "matplotlib", version.strip())


def examine(package_names):
    """All findings, what is needed first."""
    yield compiler()
    yield cmake()
    yield ninja()
    yield blas()
    yield from packages(package_names)
    yield data()
    yield from mpi()
    yield from doctor_machine.machine()
    yield matplotlib()
    yield from doctor_gpu.gpus()
    yield doctor_gpu.nccl()


def main(package_names):
    unicode = "utf" in (sys.stdout.encoding or "").lower()
    sys.stdout.reconfigure(errors="replace")
    findings = []
    for finding in examine(package_names):
        findings.append(finding)
        print("\n".join(lines_of(finding, unicode)), flush=True)
    missing = [finding for finding in findings if finding.state == MISSING]
    if missing:
        print(f"\ndoctor: {len(missing)} missing that the preset sim needs: "
              + ", ".join(finding.subject for finding in missing))
        return 1
    print("\ndoctor: the preset sim has all that it needs")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # doctor | head
    sys.exit(main(sys.argv[1:]))
