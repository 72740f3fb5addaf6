#!/usr/bin/env bash
# Gradescope runs this once, when it builds the image. Untried there: see docs/grading.md.
# The archive that is uploaded has this file, run_autograder, and the course in course/.
set -euo pipefail
cd /autograder/source/course
./course setup
. ../grading.conf
# Builds, and grades the course's own solutions: what a submission is then held against.
./course grade --prepare --stages "$STAGES" --variant "$VARIANT"
