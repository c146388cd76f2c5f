"""Workers that are kept from one item to the next. On a GPU they are; here the interpreter's are, to show how."""

from __future__ import annotations

import pytest

from grader import judging
from grader.grading import Grading
from grader.items import Item
from grader.machine import Machine
from grader.rubric import Limits
from grader.submission import Submission
from tests.corpus import FOLDER, rubric_for
from tests.test_judge import kill_workers

VALUES = ("aligned", "ragged", "strided", "extreme")


@pytest.fixture(scope="module")
def machine():
    started = Machine(Limits(), "cpu")
    started.interpreter.ready()
    yield started
    started.close()


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setattr(judging, "WORTH_KEEPING", frozenset({"cpu"}))


def grading_of(machine: Machine, exercise: str, file: str) -> tuple[Grading, dict[str, Item]]:
    grading = Grading(rubric_for(exercise, file), Submission(FOLDER / exercise), machine)
    return grading, {item.check: item for item in grading.items if item.dtype == "float32"}


def forked(machine: Machine) -> int:
    return machine.interpreter._workers


def test_on_a_cpu_every_item_has_a_worker_of_its_own(machine):
    grading, items = grading_of(machine, "softmax", "right_online.py")
    before = forked(machine)
    assert all(grading.grade(items[check]).verdict.passed for check in VALUES)
    assert forked(machine) == before + len(VALUES)
    assert kill_workers(machine) == 0
    grading.close()


def test_a_worker_that_passed_an_item_judges_the_next_and_ends_with_the_grading(machine, kept):
    grading, items = grading_of(machine, "softmax", "right_online.py")
    before = forked(machine)
    assert all(grading.grade(items[check]).verdict.passed for check in VALUES)
    assert forked(machine) == before + 1
    grading.close()
    assert kill_workers(machine) == 0


def test_a_worker_that_failed_an_item_is_not_kept(machine, kept):
    grading, items = grading_of(machine, "gelu", "lecture_gelu_any_layout.py")
    before = forked(machine)
    assert not grading.grade(items["extreme"]).verdict.passed
    assert kill_workers(machine) == 0
    used = forked(machine) - before
    assert grading.grade(items["aligned"]).verdict.passed
    assert forked(machine) == before + used + 1
    grading.close()


def test_a_worker_that_died_while_it_waited_costs_the_submission_nothing(machine, kept):
    grading, items = grading_of(machine, "softmax", "right_online.py")
    assert grading.grade(items["aligned"]).verdict.passed
    assert kill_workers(machine) == 1
    assert grading.grade(items["ragged"]).verdict.passed
    grading.close()


def test_no_worker_waits_while_something_is_timed(machine, kept):
    grading, items = grading_of(machine, "softmax", "right_online.py")
    assert grading.grade(items["aligned"]).verdict.passed
    timed = next(item for item in grading.items if item.check == "speed")
    assert grading.grade(timed).verdict.status == "not_measured"
    assert kill_workers(machine) == 0
    grading.close()


def test_a_worker_of_another_exercise_makes_room(machine, kept):
    first, items = grading_of(machine, "softmax", "right_online.py")
    assert first.grade(items["aligned"]).verdict.passed
    spare = first._judging._spare
    assert spare.take("gelu") is None
    assert kill_workers(machine) == 0
    first.close()
