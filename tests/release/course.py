"""A copy of the course for tests to spoil, and a rubric whose grading takes seconds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RUBRIC = """\
schema: grader.rubric/1
title: One kernel
seed: 20260415
weights: {aligned: 1, speed: 1}  # the hidden seed is 20260415
dtypes: [float32]
cases: {generated: 0, case_timeout_s: 20}
exercises:
  row_sum:
    points: 10
    speed: [{sizes: [[16384, 32768]], dtype: float32, baseline: eager, floor: 0.613, target: 1.153}]
release:
  public: {seed: 31415, exercises: {row_sum: {speed: [{sizes: [[16384, 32768]], dtype: float32, baseline: eager,
    floor: 0.5, target: 2}]}}}
"""


def copy_course(folder: Path) -> Path:
    """What `grader release` reads."""
    unwanted = shutil.ignore_patterns("__pycache__")
    for name in ("grader", "reference", "student", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    for name in ("pyproject.toml", "constraints.txt", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "rubric.yaml").write_text(RUBRIC)
    return folder


def run(*command: object, cwd: Path, timeout_s: float = 900, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with some variables set, and none of the test's own PYTHONPATH."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GRADER_SEED")}
    return subprocess.run([str(part) for part in command], cwd=cwd, env={**environment, **variables},
                          capture_output=True, text=True, timeout=timeout_s, check=False)  # fmt: skip


def grader(course: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command `grader` of a copy."""
    command = [sys.executable, "-P", "-m", "grader.cli", *arguments]
    return run(*command, cwd=course, PYTHONPATH=str(course), **variables)
