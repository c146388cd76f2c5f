"""Which slot gets which job, and what becomes of jobs whose slot fails."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from grader.batch.schedule import TRIES, Event, Schedule
from grader.batch.slots import Job, Outcome
from grader.errors import GraderError


@dataclass
class MadeSlot:
    """A slot whose outcomes the test decides."""

    name: str
    fails: bool = False
    ill: str = ""

    def run(self, job: Job) -> Outcome:
        """Fail or give nothing."""
        time.sleep(0.001)
        return Outcome(None, "broken" if self.fails else "", 0.0)

    def fault(self) -> str:
        """As made."""
        return self.ill

    def stop(self) -> None:
        """Nothing runs."""


JOBS = [Job(f"s{index}", Path(), ("gelu",)) for index in range(10)]


def events_of(made: list[MadeSlot]) -> tuple[list[Event], list[Job]]:
    events: list[Event] = []
    left = Schedule(JOBS, made).run(events.append)
    return events, left


def test_a_job_whose_slot_failed_is_done_by_another():
    events, left = events_of([MadeSlot("bad", fails=True), MadeSlot("good"), MadeSlot("better")])
    ended = [event for event in events if event.kind == "ended"]
    assert left == []
    assert sorted(event.job.submission for event in ended) == sorted(job.submission for job in JOBS)
    assert {(event.slot == "bad", event.message) for event in ended} == {(False, "")}


def test_a_job_that_fails_everywhere_ends_after_its_tries_as_a_fault():
    events, left = events_of([MadeSlot("a", fails=True), MadeSlot("b", fails=True)])
    assert left == []
    assert [event.message for event in events if event.kind == "ended"] == ["broken"] * 10
    assert sum(event.kind == "began" for event in events) == 10 * TRIES


def test_an_ill_gpu_gets_nothing_more_and_its_job_goes_elsewhere():
    events, left = events_of([MadeSlot("ill", fails=True, ill="wrong sums"), MadeSlot("well")])
    assert left == []
    assert sum(event.kind == "began" and event.slot == "ill" for event in events) <= 1
    assert all(event.message == "" for event in events if event.kind == "ended")


def test_a_job_comes_back_to_the_last_slot_when_the_others_are_ill():
    found: list[tuple[list[Event], list[Job]]] = []
    made = [MadeSlot("failing", fails=True), MadeSlot("ill", fails=True, ill="gone")]
    thread = threading.Thread(target=lambda: found.append(events_of(made)), daemon=True)
    thread.start()
    thread.join(30)
    assert found, "the schedule waits for a slot that is gone"
    events, left = found[0]
    assert left == []
    assert sum(event.kind == "ended" for event in events) == 10


def test_without_a_slot_left_the_rest_is_handed_back():
    events, left = events_of([MadeSlot("ill", fails=True, ill="gone"), MadeSlot("iller", fails=True, ill="gone")])
    assert len(left) == 10
    assert [event.message for event in events if event.kind == "quarantined"] == ["gone", "gone"]


def test_an_error_of_the_coordinator_stops_all_slots():
    stopped = threading.Event()

    class Stoppable(MadeSlot):
        def stop(self) -> None:
            stopped.set()

    def tell(event: Event) -> None:
        raise GraderError("the disk is full")

    with pytest.raises(GraderError, match="disk is full"):
        Schedule(JOBS, [Stoppable("a")]).run(tell)
    assert stopped.is_set()
