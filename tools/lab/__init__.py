"""The labs of the course: a student's tree, its checks, hints and solutions. docs/labs.md is for
students; here each module has one subject, and results are data that report.py words.

    stage_data.py    labs/STAGE.toml: exercises, tests, symptoms, questions
    regions.py       the marked regions of a source: find, take out, put back, merge
    student_tree.py  the files that a student works on, and what lies over the reference for a check
    build.py         builds them, and proves that it did
    programs.py      runs a test with its ranks and its time limit
    test_output.py   what failed where, and who waits for whom, read from a test's output
    symptoms.py      what such a result usually means
    check.py         an exercise -> Result
    answers.py       predictions and numbers, checked by running
    progress.py      what was passed, hinted, given up
    report.py        results in words
    prove.py         stub fails, reference passes, planted mistakes are caught
    __main__.py      the commands
"""
