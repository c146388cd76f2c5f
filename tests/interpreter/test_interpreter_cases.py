"""Runs the interpreter's cases in a child process.

TRITON_INTERPRET must be set before triton is imported, and `install` patches triton for the whole process, which the
judge's own tests must not see.

Each file of cases is one test here; its message lists the failing cases with their tracebacks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HELPERS = ("interp_support", "interp_modes", "interp_calls")
SLOW = ("interp_submissions",)
FILES = [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name in sorted(path.stem for path in (HERE / "cases").glob("interp_*.py"))
    if name not in HELPERS
]
CASES_TIMEOUT_S = 1200


def run_child(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), **environment},
        capture_output=True,
        text=True,
        timeout=CASES_TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize("file", FILES)
def test_cases(file, tmp_path):
    report = tmp_path / "report.xml"
    child = run_child(
        "-m", "pytest", "-q", "--tb=short", "-o", "python_files=interp_*.py", "-o", "norecursedirs=.*",
        "-p", "no:kernel_grader", "-p", "no:hypothesispytest",
        f"--junitxml={report}", str(HERE / "cases" / f"{file}.py"), TRITON_INTERPRET="1",
    )  # fmt: skip
    assert report.exists(), child.stdout + child.stderr
    cases = list(ET.parse(report).iter("testcase"))
    failures = [
        f"{case.get('name')}\n{problem.text}"
        for case in cases
        for problem in case
        if problem.tag in ("failure", "error")
    ]
    assert not failures, f"{len(failures)} of {len(cases)} cases failed:\n\n" + "\n\n".join(failures)
    assert cases


def test_judge_process_is_not_patched():
    assert os.environ.get("TRITON_INTERPRET") != "1"
    assert "grader.worker.interpreter" not in sys.modules


def test_install_without_the_environment_variable_says_so():
    environment = {"TRITON_INTERPRET": "0"}
    child = run_child("-c", "from grader.worker import interpreter; interpreter.install()", **environment)
    assert child.returncode == 1
    assert "TRITON_INTERPRET=1 must be in the environment before triton is imported" in child.stderr


def test_interpreter_imports_nothing_of_the_judge():
    code = (
        "import sys; from grader.worker import interpreter; interpreter.install();"
        "print([m for m in sys.modules if m.split('.')[0] in ('pydantic', 'hypothesis', 'yaml', 'reference')"
        " or (m.startswith('grader.') and not m.startswith('grader.worker'))])"
    )
    child = run_child("-c", code, TRITON_INTERPRET="1")
    assert child.stdout.strip() == "[]", child.stderr
