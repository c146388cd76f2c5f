"""The worker side starts before the judge's imports, and leaves nothing behind where it is not wanted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader import launch, sandbox
from grader.cgroup import Cgroup
from grader.errors import InfrastructureError
from grader.machine import Machine
from grader.rubric import Limits
from grader.zygote import Zygote

ROOT = Path(__file__).parent.parent


def test_launching_needs_no_torch():
    code = "import grader.options, sys; print('torch' in sys.modules or 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})  # fmt: skip
    assert done.stdout == "False\n"


@pytest.fixture(params=["L0", "auto"])
def early(request):
    assert not launch._early
    launch.start_early(request.param)
    yield launch._early[0][1]
    launch.discard_early()


def test_the_process_that_was_launched_early_is_the_one_that_serves(early):
    zygote = Zygote(Limits(processes=7), sandbox=early.sandbox)
    zygote.start()
    try:
        assert not launch._early
        assert zygote._group is early.group
        if early.group is not None:
            assert {path.read_text() for folder in early.group.folders for path in folder.glob("pids.max")} == {"56\n"}
        zygote.ready()
        worker = zygote.fork()
        assert worker.folder.is_relative_to(early.home.path)
        worker.close()
    finally:
        zygote.close()
    assert early.process.poll() is not None
    assert not early.home.path.exists()
    assert early.group is None or not any(folder.exists() for folder in early.group.folders)


def test_a_run_takes_over_the_sandbox_that_was_chosen_early(early, monkeypatch):
    monkeypatch.setattr(sandbox, "attempt", None)  # no second trial
    [(choice, _)] = launch._early
    machine = Machine(Limits(), "cpu", sandbox=choice)
    assert machine.sandbox is early.sandbox
    machine.close()


@pytest.mark.parametrize("early", ["auto"], indirect=True)
def test_limits_that_cannot_be_set_are_the_graders_fault_and_leave_nothing(early, monkeypatch):
    if early.group is None:
        pytest.skip("no control group can be made here")

    def refuse(*_: object) -> None:
        raise OSError("busy")

    monkeypatch.setattr(Cgroup, "limit", refuse)
    zygote = Zygote(Limits(), sandbox=early.sandbox)
    with pytest.raises(InfrastructureError, match="limits can't be set: busy"):
        zygote.start()
    zygote.close()
    assert early.process.poll() is not None
    assert not early.home.path.exists()
    assert not any(folder.exists() for folder in early.group.folders)


@pytest.mark.parametrize("early", ["auto"], indirect=True)
def test_one_in_another_sandbox_is_left_alone(early):
    if early.sandbox.level == "L0":
        pytest.skip("there is no other level")
    zygote = Zygote(Limits())
    zygote.start()
    zygote.close()
    assert launch.take_early(early.sandbox) is early
    early.discard()


def test_only_the_interpreter_takes_it(early):
    zygote = Zygote(Limits(), "gpu", sandbox=early.sandbox)
    zygote.start()
    try:
        assert launch._early[0][1] is early
    finally:
        zygote.close()


@pytest.mark.parametrize("arguments", [["--submission", "nowhere"], ["--collect-only", "-q"], ["--exercise", "none"],
                                       ["--exercise", "none", "--sandbox", "auto"]])  # fmt: skip
def test_a_run_that_judges_nothing_leaves_no_folder_and_no_process(tmp_path, arguments):
    command = [sys.executable, "-P", "-m", "pytest", "grader", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
                          env=os.environ | {"TMPDIR": str(tmp_path)})  # fmt: skip
    assert done.returncode in (0, 2), done.stdout + done.stderr
    assert list(tmp_path.glob("grader-*")) == []
    assert str(tmp_path) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
