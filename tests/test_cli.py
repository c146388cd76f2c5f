"""The command `grader`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def grader(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "grader.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_doctor_says_what_can_be_graded_here():
    done = grader("doctor")
    assert done.returncode == 0, done.stderr
    assert "torch 2." in done.stdout
    assert "\nparsl " in done.stdout
    gradable = " ".join(done.stdout.split()).partition(" gradable here: ")[2].partition(" not gradable")[0].split(", ")
    assert {"aligned", "compiles", "extreme", "fused", "gradient", "ragged", "warmup", "profile"} <= set(gradable)


def test_doctor_names_a_rubric_that_can_not_be_read():
    done = grader("doctor", "--rubric", "nowhere.yaml")
    assert done.returncode == 2
    assert "error: nowhere.yaml: can't be read" in done.stdout
