"""The protocol of timed rounds, with workers that exist only as a clock."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

import reference
from grader import speed, timing
from grader.items import items_of
from grader.judging import Judging, Selection
from grader.rubric import load_rubric
from grader.submission import Submission
from grader.verdict import Status, Verdict
from reference.exercise import Case, TensorSpec
from tests.corpus import ROOT

CASE = Case("gelu", "speed", "bfloat16", (TensorSpec("x", (4096, 4096)),))
START_UP_S = 0.0007


class Clock:
    """Virtual seconds in place of the machine's."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Pool:
    """What a duel needs of a pool, without memory."""

    case: Case = CASE
    calls: int = 200
    exercise: Any = field(default_factory=lambda: reference.load("gelu"))
    output_shape: tuple[int, ...] = (4096, 4096)
    memory: Any = field(default_factory=lambda: SimpleNamespace(size=1, fd=0, close=lambda: None))

    @property
    def output_offsets(self) -> list[int]:
        return list(range(self.calls))

    def messages(self, calls: int) -> list[Any]:
        return [self.case] * calls

    refilled: list[int] = field(default_factory=list)

    def refill(self, calls: int) -> None:
        assert calls <= self.calls
        self.refilled.append(calls)

    def output(self, call: int) -> int:
        return call

    def take(self, call: int, calls: int) -> list[Any]:
        assert 0 <= call < calls
        return []


class Worker:
    """Answers every message, and takes `call_s` for a call of the benchmark and `start_up_s` for a round."""

    def __init__(self, clock: Clock, call_s: float, start_up_s: float = START_UP_S) -> None:
        self.clock = clock
        self.call_s = call_s
        self.start_up_s = start_up_s
        self.calls: list[Case] = []
        self.asked: list[str] = []
        self.paused = False

    def post(self, message: dict[str, Any], _fds: tuple[int, ...]) -> None:
        self.asked.append(message["kind"])
        if message["kind"] == "prepare_round":
            self.calls = message["calls"]
        if message["kind"] == "run_round":
            assert not self.paused
            self.clock.now += self.start_up_s
            self.clock.now += sum(self.call_s if case is CASE else 0.00002 for case in self.calls)

    def wait(self, _timeout_s: float, *, spin: bool = False) -> dict[str, Any]:
        return {"kind": "done"}

    def pause(self, *, paused: bool) -> None:
        self.paused = paused


@pytest.fixture
def clock(monkeypatch):
    virtual = Clock()
    monkeypatch.setattr(timing, "time", virtual)
    monkeypatch.setattr(timing.Pool, "allocate", lambda exercise, case, calls: Pool(case, calls, exercise))
    return virtual


def duel_of(baseline: Worker, submission: Worker, throttled: list[bool] | None = None, **changed: Any) -> timing.Duel:
    players = (timing.Player(name, worker, name) for name, worker in (("eager", baseline), ("student", submission)))
    answers = iter(throttled or [])
    given = {"judge_round": lambda *_: None, "is_idle": lambda: True, "is_throttled": lambda: next(answers, False)}
    return timing.Duel(*players, Pool(), **{**given, **changed}, seed=1)


def play(duel: timing.Duel, rounds: int) -> None:
    for player in (duel.baseline, duel.submission):
        player.forget()
    for _ in range(rounds):
        duel.before()
        duel.timed()
        duel.after()


def test_warming_up_sees_numbers_too_not_what_was_erased(clock):
    worker = Worker(clock, 0.00007)
    duel = duel_of(Worker(clock, 0.0007), worker)
    filled = []
    post = worker.post
    worker.post = lambda message, fds: (filled.append((message["kind"], duel._pool.refilled[-1:])), post(message, fds))
    play(duel, 3)
    assert [last for kind, last in filled if kind == "prepare_round"] == [[1]] * 3
    assert all(last[0] > 1 for kind, last in filled if kind == "run_round")


def test_a_call_takes_what_it_takes_whatever_waking_up_costs(clock):
    duel = duel_of(Worker(clock, 0.0007), Worker(clock, 0.00007))
    play(duel, 4)
    assert duel.baseline.seconds == pytest.approx([0.0007] * 4, rel=1e-6)
    assert duel.submission.seconds == pytest.approx([0.00007] * 4, rel=1e-6)


def test_a_round_is_long_enough_and_as_short_as_that_allows(clock):
    duel = duel_of(Worker(clock, 0.003), Worker(clock, 0.00007))
    assert timing.ROUND_S <= duel.submission.calls * 0.00007 <= 1.1 * timing.ROUND_S
    assert duel.baseline.calls in (3, 4), "the slower of the two needs fewer"


def test_a_submission_that_takes_its_time_at_the_start_of_a_round_gains_nothing(clock):
    duel = duel_of(Worker(clock, 0.0007), Worker(clock, 0.0005, start_up_s=0.004))
    play(duel, 2)
    assert all(seconds > 0.0005 for seconds in duel.submission.seconds)


def test_the_submission_stands_still_while_the_baseline_runs(clock):
    baseline, submission = Worker(clock, 0.0007), Worker(clock, 0.00007)
    duel = duel_of(baseline, submission)
    paused = []
    run = duel.baseline.run
    duel.baseline.run = lambda: paused.append(submission.paused) or run()
    play(duel, 3)
    assert paused == [True] * 3
    assert not submission.paused


def test_a_throttled_pair_is_played_again_and_does_not_count(clock):
    duel = duel_of(Worker(clock, 0.0007), Worker(clock, 0.00007), [False, True, True, False])
    before = clock.now
    play(duel, 3)
    assert duel.repeated == 2
    assert len(duel.submission.seconds) == len(duel.baseline.seconds) == 3
    assert len(duel.submission.fetch_seconds) == len(duel.baseline.fetch_seconds) == 3
    assert clock.now - before > 2 * timing.COOLING_S


def test_a_device_that_never_cools_down_ends_the_repeats(clock):
    duel = duel_of(Worker(clock, 0.0007), Worker(clock, 0.00007), is_throttled=lambda: True)
    play(duel, 2)
    assert duel.repeated == timing.MOST_REPEATS
    assert len(duel.submission.seconds) == 2


def test_a_device_that_does_not_get_idle_is_said_to_be_busy(clock):
    busy = False

    def is_idle() -> bool:
        clock.now += 0.5
        return not busy

    duel = duel_of(Worker(clock, 0.0007), Worker(clock, 0.00007), is_idle=is_idle)
    busy = True
    with pytest.raises(timing.BusyError, match="the device is busy while"):
        duel.before()


def test_one_output_of_each_round_is_judged_and_the_first_complaint_stays(clock):
    complaints = iter([None, "the first", "the second"])
    duel = duel_of(Worker(clock, 0.0007), Worker(clock, 0.00007), judge_round=lambda *_: next(complaints))
    play(duel, 3)
    assert duel.complaint == "the first"


def test_nobody_is_kept_off_the_gpu_while_the_baselines_compile(monkeypatch):
    happened = []

    @contextmanager
    def alone():
        happened.append("held")
        yield

    machine = SimpleNamespace(
        has_gpu=True, gpu=object(), baseline=object(), device=SimpleNamespace(name="a GPU"), alone=alone,
        peers=lambda cases: SimpleNamespace(wait=lambda: happened.append("compiled")),
    )  # fmt: skip
    monkeypatch.setattr(speed, "judge_speed", lambda *_: happened.append("timed") or Verdict(Status.PASSED))
    rubric = load_rubric(ROOT / "rubric.yaml").rubric
    (item, *_) = (item for item in items_of(rubric, ["gelu"]) if item.check == "speed")
    judging = Judging(rubric, Submission(ROOT / "reference/solutions"), machine, [item], 0, None, Selection())
    assert judging._speed(item, reference.load("gelu"), lambda *_: None).passed
    assert happened == ["compiled", "held", "timed"]
