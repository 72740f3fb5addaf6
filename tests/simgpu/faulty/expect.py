#!/usr/bin/env python3
"""Runs a program and checks how it ends and what it says.

    expect.py --fails --text 'heap-buffer-overflow' --marked out_of_bounds.cu planted -- PROGRAM wrong
    expect.py --passes --no-text 'WARNING: ThreadSanitizer' -- PROGRAM right
    expect.py --fails-under SIMGPU_SCHEDULE=delays:1 SIMGPU_THREAD_ORDER=reverse -- PROGRAM wrong
    expect.py --passes-under SIMGPU_SCHEDULE=delays:1 SIMGPU_THREAD_ORDER=reverse -- PROGRAM right
"""

import argparse
import os
import re
import subprocess
import sys

TIME_LIMIT = 60  # seconds for one run


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument("--passes", action="store_true", help="exit status 0")
    end.add_argument("--fails", action="store_true", help="another exit status, or a signal")
    end.add_argument("--passes-under", nargs="+", metavar="NAME=VALUE",
                     help="passes with each of these environments")
    end.add_argument("--fails-under", nargs="+", metavar="NAME=VALUE",
                     help="fails with at least one of these environments")
    parser.add_argument("--text", action="append", default=[], metavar="REGEX",
                        help="must be found in the output")
    parser.add_argument("--no-text", action="append", default=[], metavar="REGEX",
                        help="must not be found in the output")
    parser.add_argument("--marked", nargs=2, metavar=("SOURCE", "MARK"),
                        help="the output must name the line of SOURCE that has the comment // MARK")
    options, rest = parser.parse_known_args(sys.argv[1:sys.argv.index("--")])
    options.command = sys.argv[sys.argv.index("--") + 1:]
    if rest:
        parser.error(f"unknown: {rest}")
    return options


def run(command, setting=None):
    environment = dict(os.environ)
    if setting:
        environment.update(pair.split("=", 1) for pair in setting.split(","))
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=TIME_LIMIT, check=False)
    return result.returncode, result.stdout.decode(errors="replace")


def line_of_mark(source, mark):
    with open(source, encoding="utf-8") as lines:
        found = [number for number, line in enumerate(lines, 1) if f"// {mark}" in line]
    if len(found) != 1:
        sys.exit(f"{source}: '// {mark}' stands on {len(found)} lines, expected 1")
    return f"{os.path.basename(source)}:{found[0]}"


def main():
    options = parse()
    problems = []
    if options.passes_under or options.fails_under:
        outputs = []
        failed = []
        for setting in options.passes_under or options.fails_under:
            status, output = run(options.command, setting)
            outputs.append(f"--- {setting}: status {status}\n{output}")
            if status != 0:
                failed.append(setting)
        output = "".join(outputs)
        if options.passes_under and failed:
            problems.append(f"failed under {failed}")
        if options.fails_under and not failed:
            problems.append("passed under every setting: nothing shows the fault")
        print(f"failed under {len(failed)} of {len(outputs)} settings: {failed}")
    else:
        status, output = run(options.command)
        if options.passes and status != 0:
            problems.append(f"ended with status {status}, expected 0")
        if options.fails and status == 0:
            problems.append("ended with status 0, expected a failure")
    if options.marked:
        options.text.append(re.escape(line_of_mark(*options.marked)) + r"\b")
    problems += [f"not found: {text}" for text in options.text if not re.search(text, output)]
    problems += [f"found: {text}" for text in options.no_text if re.search(text, output)]
    if problems:
        sys.exit("\n".join([output, *problems]))


main()
