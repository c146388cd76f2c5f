"""The worker side starts before the judge's imports, and leaves nothing behind where it is not wanted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader import launch
from grader.rubric import Limits
from grader.zygote import Zygote

ROOT = Path(__file__).parent.parent


def test_launching_needs_no_torch():
    code = "import grader.options, sys; print('torch' in sys.modules or 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})  # fmt: skip
    assert done.stdout == "False\n"


@pytest.fixture
def early():
    assert launch.take_early() is None
    launch.start_early()
    yield launch._early[0]
    launch.discard_early()


def test_the_process_that_was_launched_early_is_the_one_that_serves(early):
    zygote = Zygote(Limits())
    zygote.start()
    try:
        assert launch.take_early() is None
        zygote.ready()
        worker = zygote.fork()
        assert worker.folder.is_relative_to(early.home.path)
        worker.close()
    finally:
        zygote.close()
    assert early.process.poll() is not None
    assert not early.home.path.exists()


def test_only_the_interpreter_without_a_sandbox_takes_it(early):
    zygote = Zygote(Limits(), "gpu")
    zygote.start()
    try:
        assert launch._early == [early]
    finally:
        zygote.close()


@pytest.mark.parametrize("arguments", [["--submission", "nowhere"], ["--collect-only", "-q"], ["--exercise", "none"]])
def test_a_run_that_judges_nothing_leaves_no_folder_and_no_process(tmp_path, arguments):
    command = [sys.executable, "-P", "-m", "pytest", "grader", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
                          env=os.environ | {"TMPDIR": str(tmp_path)})  # fmt: skip
    assert done.returncode in (0, 2), done.stdout + done.stderr
    assert list(tmp_path.glob("grader-*")) == []
    assert str(tmp_path) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
