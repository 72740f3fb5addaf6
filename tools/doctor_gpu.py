"""What ./course doctor finds of real GPUs: toolkit, driver, GPUs, NCCL. All of it is optional."""

import ctypes
import os
import re
import shutil
from pathlib import Path

from finding import NOTE, OK, Finding, dotted, output_of, version_in

LEAST_TOOLKIT = (12, 4)


def toolkit_version():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    return version_in(output_of([nvcc, "--version"]), r"release (\d+\.\d+)")


def gpus():
    """The toolkit, the driver, whether they fit, and the GPUs: for the preset cuda."""
    toolkit = toolkit_version()
    if toolkit is None:
        yield Finding(NOTE, "CUDA toolkit", "no nvcc; only the preset cuda needs it",
                      f"CUDA Toolkit 13 ({dotted(LEAST_TOOLKIT)} and up where it compiles), from "
                      "NVIDIA")
    elif toolkit < LEAST_TOOLKIT:
        yield Finding(NOTE, "CUDA toolkit",
                      f"{dotted(toolkit)} is older than {dotted(LEAST_TOOLKIT)}, which the preset "
                      "cuda needs", "a newer CUDA Toolkit, from NVIDIA")
    else:
        yield Finding(OK, "CUDA toolkit", f"{dotted(toolkit)}, for the preset cuda")

    if shutil.which("nvidia-smi") is None:
        yield Finding(NOTE, "NVIDIA driver", "no nvidia-smi; only the preset cuda needs a GPU",
                      "without one, the preset sim simulates GPUs on the CPU")
        return
    table = output_of(["nvidia-smi"]) or ""
    match = re.search(r"Driver Version: ([\d.]+)", table)
    driver = match[1] if match else None  # as it is written: 580.65.06
    newest = version_in(table, r"CUDA Version: (\d+\.\d+)")
    listed = (output_of(["nvidia-smi", "-L"]) or "").splitlines()
    devices = [line for line in listed if line.startswith("GPU ")]
    if driver is None:
        yield Finding(NOTE, "NVIDIA driver", "nvidia-smi is here but answers nothing useful",
                      "in a container, start it with the GPUs (docker run --gpus all); else see to "
                      "the driver")
    elif toolkit and newest and newest[0] < toolkit[0]:
        yield Finding(NOTE, "NVIDIA driver",
                      f"{driver} runs CUDA up to {dotted(newest)}; the toolkit is "
                      f"{dotted(toolkit)}", "a newer driver, or an older toolkit")
    else:
        runs = f", runs CUDA up to {dotted(newest)}" if newest else ""
        yield Finding(OK, "NVIDIA driver", driver + runs)
    if devices:
        for line in devices:
            yield Finding(OK, "GPU", re.sub(r" \(UUID.*", "", line))
    else:
        yield Finding(NOTE, "GPU", "nvidia-smi lists none", "the preset sim simulates them")


def nccl_header(folders):
    """(folder, version) of the first nccl.h there, or None."""
    for folder in folders:
        path = folder / "nccl.h"
        if path.is_file():
            text = path.read_text(errors="replace")
            parts = [re.search(rf"#define\s+NCCL_{part}\s+(\d+)", text)
                     for part in ("MAJOR", "MINOR", "PATCH")]
            if all(parts):
                return folder, tuple(int(part[1]) for part in parts)
    return None


def nccl_library():
    """(name, version) of libnccl, or None. It answers without a GPU."""
    try:
        library = ctypes.CDLL("libnccl.so.2")
        code = ctypes.c_int(0)
        library.ncclGetVersion(ctypes.byref(code))
    except (OSError, AttributeError):
        return None
    value = code.value
    return "libnccl.so.2", (value // 10000, value // 100 % 100, value % 100)


def nccl(find_library=nccl_library):
    cuda = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    folders = [Path(p) for p in os.environ.get("CPATH", "").split(":") if p]
    header = nccl_header([*folders, cuda / "include", Path("/usr/include")])
    library = find_library()
    remedy = "libnccl2 and libnccl-dev of the toolkit's version, from NVIDIA (not for sim)"
    if header is None and library is None:
        return Finding(NOTE, "NCCL", "no nccl.h and no libnccl.so.2; real GPUs need it from stage "
                                     "05 on", remedy)
    if header is None or library is None:
        lacking = "nccl.h" if header is None else "libnccl.so.2"
        return Finding(NOTE, "NCCL", f"{lacking} is missing, the other half is here", remedy)
    told = f"header {dotted(header[1])} in {header[0]}, library {dotted(library[1])}"
    if header[1][:2] != library[1][:2]:
        return Finding(NOTE, "NCCL", told + ": they differ", remedy)
    return Finding(OK, "NCCL", told)
