"""What the code of an exercise may not use, told by names: comments and strings do not count.

It stops an honest shortcut, such as MPI_Allreduce in a ring, and makes the plain ways to deceive a grader fail. Whoever is set
on it gets past: docs/grading.md says how far this goes.
"""

import re

from lab.stage_data import Exercise
from sources import without_comments

# No exercise needs them: they end the program, start others, reach the environment or the machine, or
# make names that cannot be read.
NEVER = ("exit", "_exit", "_Exit", "quick_exit", "abort", "atexit", "at_quick_exit", "fork", "vfork", "clone", "execv",
         "execve", "execl", "execlp", "execvp", "posix_spawn", "system", "popen", "kill", "raise", "signal",
         "sigaction", "syscall", "ptrace", "getenv", "secure_getenv", "setenv", "putenv", "environ", "__environ",
         "dlopen", "dlsym", "asm", "__asm__", "__asm", "constructor", "destructor", "init_priority", "MPI_Abort",
         "Catch", "TestRecord", "CatchSession", "setjmp", "longjmp", "ofstream", "fopen", "open", "ifstream")
_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'')
_INCLUDE = re.compile(r'^[ \t]*(?:#|%:)[ \t]*(?:include|include_next|import|embed)\b[ \t]*(.*)$', re.MULTILINE)


def code_of(text):
    """A source without comments and without what stands in strings."""
    joined = re.sub(r"\\[ \t]*\n", "", text)  # a name may be cut in two
    return _TEXT.sub('""', without_comments(joined))


def objections(text, exercise: Exercise):
    """Sentences: what a student's file has that it may not."""
    joined = re.sub(r"\\[ \t]*\n", "", text)
    found = []
    for target in _INCLUDE.findall(without_comments(joined)):
        name = target.strip().strip('<>"')
        if not re.fullmatch(r'(<[\w./+-]+>|"[\w./+-]+")', target.strip()) or name.startswith("/") or ".." in name:
            found.append(f"includes {target.strip()}; plain names alone are allowed")
    code = re.sub(r"^[ \t]*#[ \t]*include\b.*$", "", code_of(text), flags=re.MULTILINE)
    names = set(re.findall(r"\w+", code))
    for name in exercise.forbidden:
        if name in names:
            found.append(f"uses {name}, which is what the exercise builds")
    for name in NEVER:
        if name in names:
            found.append(f"uses {name}, which no exercise needs")
    if "##" in code or "%:" in code or re.search(r"\\[uUN]", code):
        found.append("makes names that cannot be read (##, %: or \\u)")
    return found
