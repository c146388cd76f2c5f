#!/usr/bin/env bash
# What Gradescope runs once, when it builds the image. Choose Ubuntu 24.04 there: the grader needs Python 3.11.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"
course="$root/source/course"
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends python3 python3-venv
python3 -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 is needed: choose Ubuntu 24.04")'
python3 -m venv "$root/venv"
pip=("$root/venv/bin/pip" install --no-cache-dir --disable-pip-version-check)
# PyTorch without CUDA, which is ten times smaller; the version is the one that the grader was tested with.
"${pip[@]}" --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' "$course/constraints.txt")"
"${pip[@]}" -c "$course/constraints.txt" -e "$course"
# The rubric and the seed are the staff's; submissions run as other users, where the sandbox gets that far.
chmod 600 "$course/rubric.yaml"
if [ -f "$root/source/seed" ]; then chmod 600 "$root/source/seed"; fi
