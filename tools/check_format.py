#!/usr/bin/env python3
"""Checks that every source file is as clang-format 14 would write it with the project's settings.

Other versions of clang-format disagree about details, so without version 14 this is skipped.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from sources import ROOT, source_files


def find_clang_format():
    for name in ("clang-format-14", "clang-format"):
        if path := shutil.which(name):
            if "version 14." in subprocess.check_output([path, "--version"], text=True):
                return path
    return None


def main():
    clang_format = find_clang_format()
    if clang_format is None:
        print("format: skipped, no clang-format 14 (./course setup --developer installs it)")
        return 0
    files = source_files(ROOT)

    def is_wrong(path):
        return subprocess.check_output([clang_format, path], cwd=ROOT) != path.read_bytes()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [path for path, bad in zip(files, pool.map(is_wrong, files)) if bad]
    for path in wrong:
        print(f"{path.relative_to(ROOT)}: run clang-format -i on it", file=sys.stderr)
    print(f"format: {len(files)} files, {len(wrong)} wrong")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
