"""Runs a command for a tool: with a time limit, output in one text, and without what a caller's shell
has set for simulated GPUs, which must not decide a verdict."""

import os
import subprocess


def clean_environment(**more):
    """Ours, without settings of simulated GPUs and planted faults."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("SIMGPU_", "DDP_FAULT"))}
    return {**kept, **more}


def run(command, limit, environment):
    """(status, output) of a command; status None where it took more than `limit` seconds."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=limit, stdin=subprocess.DEVNULL,
                              env=environment)
    except subprocess.TimeoutExpired as error:
        output = error.stdout or ""
        if isinstance(output, bytes):
            output = output.decode(errors="replace")
        return None, f"{output}\n{command[0]} took more than {limit} s"
    return done.returncode, done.stdout
