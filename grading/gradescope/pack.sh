#!/usr/bin/env bash
# Packs what Gradescope wants: grading/gradescope/pack.sh autograder.zip
set -euo pipefail
[[ $# == 1 ]] || { echo "usage: pack.sh OUT.zip" >&2; exit 2; }
out=$(realpath -m "$1")
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git archive --prefix=course/ HEAD | tar -x -C "$folder"
cp grading/gradescope/{setup.sh,run_autograder,grading.conf} "$folder"
(cd "$folder" && python3 -m zipfile -c "$out" ./*)
echo "$out"
