"""Takes things away from the machine, or gives it odd ones, and reads what the doctor says."""

import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import doctor
import doctor_gpu
import doctor_machine
from finding import MISSING, NOTE, OK, Finding, lines_of, version_in

TOOLS = Path(__file__).resolve().parent


class Machine(unittest.TestCase):
    """A PATH on which there is nothing but what a test puts there."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        patch = mock.patch.dict(os.environ, {"PATH": str(self.bin)})
        patch.start()
        self.addCleanup(patch.stop)
        for name in ("CXX", "DDP_DATA_DIR", "CUDA_HOME", "CPATH", "OMPI_ALLOW_RUN_AS_ROOT",
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "container"):
            os.environ.pop(name, None)

    def program(self, name, script):
        """Puts a shell script on the PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def says(self, finding, state, *words):
        self.assertEqual(finding.state, state, finding.text)
        for word in words:
            self.assertIn(word, f"{finding.text} {finding.remedy}")
        if state != OK:
            self.assertTrue(finding.remedy, finding.text)


class Needed(Machine):
    def test_no_compiler(self):
        self.says(doctor.compiler(), MISSING, "no g++", "apt-get install g++")

    def test_an_old_compiler(self):
        self.program("c++", "echo 10.2.1")
        self.says(doctor.compiler(), MISSING, "10.2.1 is older than 11")

    def test_a_compiler_without_its_library(self):
        self.program("c++", '[ "$1" = -std=c++20 ] && exit 1; echo 12.2.0')
        self.says(doctor.compiler(), MISSING, "does not compile", "libstdc++")

    def test_a_good_compiler_by_CXX(self):
        self.program("g++-13", "echo 13.1.0")
        with mock.patch.dict(os.environ, {"CXX": "g++-13"}):
            self.says(doctor.compiler(), OK, "g++-13 13.1.0")

    def test_cmake(self):
        self.says(doctor.cmake(), MISSING, "not on the PATH", "apt-get install cmake")
        for version, state in (("3.22.1", MISSING), ("3.23.0", OK), ("4.0.3", OK)):
            self.program("cmake", f"echo cmake version {version}")
            self.says(doctor.cmake(), state, version)

    def test_ninja(self):
        self.says(doctor.ninja(), MISSING, "ninja-build")
        self.program("ninja", "echo 1.11.1")
        self.says(doctor.ninja(), OK, "1.11.1")

    def test_a_program_that_fails_is_missing(self):
        self.program("ninja", "echo 1.11.1; exit 127")
        self.says(doctor.ninja(), MISSING)

    def test_blas(self):
        with mock.patch("ctypes.util.find_library", return_value=None):
            self.says(doctor.blas(), MISSING, "cblas_sgemm", "libopenblas-dev")
        with mock.patch("ctypes.util.find_library", return_value="libc.so.6"):
            self.says(doctor.blas(), MISSING, "cblas_sgemm")  # a library, but not that one

    def test_packages(self):
        self.says(doctor.packages(["g++"])[0], NOTE, "no dpkg")
        self.program("dpkg-query", 'for last; do :; done; [ "$last" = there ] && printf installed; '
                                   '[ "$last" = gone ] && printf config-files; exit 0')
        self.says(doctor.packages(["there"])[0], OK, "all 1")
        findings = doctor.packages(["there", "gone", "never"])
        self.assertEqual(len(findings), 2)
        self.says(findings[0], MISSING, "gone", "apt-get install gone")
        self.says(findings[1], MISSING, "never")

    def test_the_whole_report_fails_on_a_bare_machine(self):
        done = subprocess.run([sys.executable, TOOLS / "doctor.py", "g++"], capture_output=True,
                              text=True, env={"PATH": str(self.bin), "PYTHONIOENCODING": "ascii"})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("XX compiler:", done.stdout)
        self.assertIn("-> apt-get install", done.stdout)
        self.assertIn("compiler, CMake, ninja", done.stdout.splitlines()[-1])
        self.assertTrue(done.stdout.isascii())


class Optional(Machine):
    OPEN_MPI = 'echo "mpirun (Open MPI) 4.1.4"'

    def mpi(self):
        return {finding.subject: finding for finding in doctor.mpi()}

    def test_data(self):
        os.environ["DDP_DATA_DIR"] = str(self.folder)
        self.says(doctor.data(), NOTE, "train-images-idx3-ubyte", "dataset-fashion-mnist")
        (self.folder / "fashion-mnist").mkdir()
        for name in doctor.DATA_FILES:
            (self.folder / "fashion-mnist" / f"{name}.gz").touch()
        self.says(doctor.data(), OK, str(self.folder))
        (self.folder / "fashion-mnist/t10k-labels-idx1-ubyte.gz").unlink()
        self.says(doctor.data(), NOTE, "t10k-labels-idx1-ubyte")
        (self.folder / "fashion-mnist/t10k-labels-idx1-ubyte").touch()
        self.says(doctor.data(), OK)

    def test_no_mpi(self):
        self.assertEqual(list(self.mpi()), ["MPI"])
        self.says(self.mpi()["MPI"], NOTE, "stage 03", "openmpi-bin")

    def test_another_mpi(self):
        self.program("mpirun", "echo HYDRA build details: 4.0")
        self.says(self.mpi()["MPI"], NOTE, "not Open MPI")

    def test_mpi_as_root(self):
        self.program("mpirun", self.OPEN_MPI)
        with mock.patch("os.geteuid", return_value=0):
            self.says(self.mpi()["MPI as root"], NOTE, "OMPI_ALLOW_RUN_AS_ROOT=1")
            os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            self.assertNotIn("MPI as root", self.mpi())
        os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = "0"
        with mock.patch("os.geteuid", return_value=1000):
            self.assertNotIn("MPI as root", self.mpi())

    def test_cuda_aware_or_not(self):
        self.program("mpirun", self.OPEN_MPI)
        self.says(self.mpi()["MPI and CUDA"], NOTE, "does not say")
        for value, words in (("true", "may take device pointers"), ("false", "not CUDA-aware")):
            self.program("ompi_info",
                         f"echo mca:mpi:base:param:mpi_built_with_cuda_support:value:{value}")
            self.says(self.mpi()["MPI and CUDA"], OK, words)

    def test_no_matplotlib(self):
        with mock.patch("sys.executable", str(self.bin / "python3")):
            self.program("python3", "exit 1")
            self.says(doctor.matplotlib(), NOTE, "python3-matplotlib")


class Gpus(Machine):
    NVCC = 'echo "Cuda compilation tools, release %s, V13.0.88"'
    SMI = ('[ "$1" = -L ] && { echo "GPU 0: NVIDIA H200 (UUID: GPU-1)"; exit; }; '
           'echo "| NVIDIA-SMI 580.1  Driver Version: 580.65.06  CUDA Version: %s |"')

    def gpus(self):
        return {finding.subject: finding for finding in doctor_gpu.gpus()}

    def test_none_is_no_failure(self):
        with mock.patch("doctor_gpu.toolkit_version", return_value=None):
            found = self.gpus()
        self.says(found["CUDA toolkit"], NOTE, "only the preset cuda needs it")
        self.says(found["NVIDIA driver"], NOTE, "no nvidia-smi", "simulates")

    def test_all_there(self):
        self.program("nvcc", self.NVCC % "13.0")
        self.program("nvidia-smi", self.SMI % "13.0")
        found = self.gpus()
        self.says(found["CUDA toolkit"], OK, "13.0")
        self.says(found["NVIDIA driver"], OK, "580.65.06")
        self.says(found["GPU"], OK, "NVIDIA H200")

    def test_an_old_toolkit(self):
        self.program("nvcc", self.NVCC % "12.3")
        self.says(self.gpus()["CUDA toolkit"], NOTE, "12.3 is older than 12.4")

    def test_a_driver_too_old_for_the_toolkit(self):
        self.program("nvcc", self.NVCC % "13.0")
        self.program("nvidia-smi", self.SMI % "12.8")
        self.says(self.gpus()["NVIDIA driver"], NOTE, "up to 12.8", "13.0", "a newer driver")

    def test_a_driver_that_does_not_answer(self):
        self.program("nvidia-smi", "echo NVIDIA-SMI has failed; exit 9")
        self.says(self.gpus()["NVIDIA driver"], NOTE, "--gpus all")
        self.says(self.gpus()["GPU"], NOTE, "lists none")

    def nccl(self, header, library):
        folder = self.folder / "include"
        folder.mkdir(exist_ok=True)
        if header:
            parts = zip(("MAJOR", "MINOR", "PATCH"), header)
            (folder / "nccl.h").write_text("".join(f"#define NCCL_{p} {v}\n" for p, v in parts))
        with mock.patch("doctor_gpu.nccl_header",
                        side_effect=lambda _: REAL_HEADER([folder])):
            return doctor_gpu.nccl(lambda: library and ("libnccl.so.2", library))

    def test_nccl(self):
        self.says(self.nccl(None, None), NOTE, "stage 05")
        self.says(self.nccl(None, (2, 28, 9)), NOTE, "nccl.h is missing")
        self.says(self.nccl((2, 28, 9), None), NOTE, "libnccl.so.2 is missing")
        self.says(self.nccl((2, 28, 9), (2, 28, 3)), OK, "header 2.28.9", "library 2.28.3")
        self.says(self.nccl((2, 28, 9), (2, 19, 3)), NOTE, "they differ")


REAL_HEADER = doctor_gpu.nccl_header


class TheMachine(Machine):
    def shared(self, mebibytes, free):
        status = os.statvfs_result((4096, 2**20, mebibytes, free, free, 1, 1, 1, 0, 255))
        with mock.patch("os.statvfs", return_value=status):
            return doctor_machine.shared_memory()

    def test_shared_memory(self):
        self.says(self.shared(64, 64), NOTE, "64 MiB", "--shm-size")
        self.says(self.shared(1024, 3), NOTE, "3 free")
        self.says(self.shared(1024, 1000), OK, "1024 MiB")
        with mock.patch("os.statvfs", side_effect=FileNotFoundError):
            self.says(doctor_machine.shared_memory(), NOTE, "not there")

    def test_wsl(self):
        file = self.folder / "version"
        file.write_text("Linux version 5.15.90.1-microsoft-standard-WSL2")
        self.assertTrue(doctor_machine.in_wsl(file))
        file.write_text("Linux version 6.1.0 (debian-kernel)")
        self.assertFalse(doctor_machine.in_wsl(file))
        self.assertFalse(doctor_machine.in_wsl(self.folder / "none"))

    def test_container(self):
        with mock.patch("os.path.exists", return_value=False), \
                mock.patch("pathlib.Path.read_text", return_value="0::/\n"):
            self.assertFalse(doctor_machine.in_container())
            os.environ["container"] = "podman"
            self.assertTrue(doctor_machine.in_container())

    def test_little_memory(self):
        with mock.patch("doctor_machine.memory_bytes", return_value=(8 * 2**30, 2**30)):
            found = {finding.subject: finding for finding in doctor_machine.machine()}
        self.says(found["memory"], NOTE, "limited to 1.0", "-j 1")
        self.assertGreaterEqual(doctor_machine.physical_cores(), 1)


class Lines(unittest.TestCase):
    def test_signs_and_remedies(self):
        finding = Finding(MISSING, "CMake", "not here", "install it")
        self.assertEqual(lines_of(finding, True)[0], "✗ CMake:          not here")
        self.assertEqual(lines_of(finding, False),
                         ["XX CMake:          not here", " " * 19 + "-> install it"])
        self.assertEqual(len(lines_of(Finding(OK, "CMake", "3.25"), True)), 1)

    def test_versions(self):
        self.assertEqual(version_in("cmake version 3.25.1\n"), (3, 25, 1))
        self.assertIsNone(version_in("none"))
        self.assertIsNone(version_in(None))


if __name__ == "__main__":
    unittest.main()
