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
from grader.reply import parse_reply
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


@pytest.mark.parametrize(
    ("time_us", "fetches", "busy", "recorded_us", "facts"),
    [
        (70.0, [1e-3] * 3, 0, 75.0, set()),
        (62.0, [1e-3] * 3, 0, 75.0, {"under_the_limit"}),
        (70.0, [1e-3, 9e-3, 1e-3], 0, 75.0, {"late_rounds"}),
        (70.0, [1e-3] * 3, 1, 75.0, {"busy_rounds"}),
        (70.0, [1e-3] * 3, 0, 170.0, {"slower_while_recorded"}),
    ],
)
def test_what_proves_nothing_about_a_timing_is_kept_for_staff(time_us, fetches, busy, recorded_us, facts):
    baseline = SimpleNamespace(fetch_seconds=[1e-3] * 3, busy_rounds=0, calls=120)
    submission = SimpleNamespace(fetch_seconds=fetches, busy_rounds=busy, calls=120, seconds=[time_us * 1e-6] * 3)
    duel = SimpleNamespace(baseline=baseline, submission=submission)
    assert set(speed._suspicions(duel, speed.Recording(recorded_us * 1e-6, 4.0), time_us, least_us=64.0)) == facts


def duel_of_facts(late: int = 0, baseline_late: int = 0, busy: int = 0, baseline_busy: int = 0) -> SimpleNamespace:
    """A duel of 24 rounds, in so many of which something came between."""
    players = (
        SimpleNamespace(fetch_seconds=[9e-3] * rounds + [75e-6] * (24 - rounds), busy_rounds=busy_rounds,
                        refill_seconds=[75e-6] * 24, seconds=[70e-6] * 24, calls=120)
        for rounds, busy_rounds in ((baseline_late, baseline_busy), (late, busy))
    )  # fmt: skip
    return SimpleNamespace(**dict(zip(("baseline", "submission"), players, strict=True)))


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"late": 2, "busy": 2}, None),
        ({"late": 3}, "in 3 of 24 rounds each result took over"),
        ({"late": 4, "baseline_late": 2}, None),  # the host's doing
        ({"late": 24, "baseline_late": 2}, "in 24 of 24 rounds each result took over"),
        ({"busy": 3}, "in 3 rounds the device worked while the submission stood still"),
        ({"busy": 4, "baseline_busy": 2}, None),
    ],
    ids=str,
)
def test_odd_rounds_tell_on_a_submission_where_it_has_more_of_them_than_the_baseline(facts, says):
    trick = speed._trick(duel_of_facts(**facts), speed.Recording(70e-6, 2.0))
    assert (trick is None) if says is None else (trick is not None and trick.startswith(says)), trick


@pytest.mark.parametrize(
    ("recorded_us", "notes", "told"),
    [
        (75.0, 2.0, False),
        (90.0, 0.0, False),
        (110.0, 0.0, True),
        (174.0, 4.0, False),  # three operators and a launch, as a slow host took for them
        (250.0, 4.0, True),
        (470.0, 500.0, False),
        (500.0, 500.0, True),  # so many operators are called for the sake of the notes
    ],
)
def test_a_submission_that_is_slower_while_it_is_recorded_gets_no_points_unless_the_notes_took_the_time(
    recorded_us, notes, told
):
    trick = speed._trick(duel_of_facts(), speed.Recording(recorded_us * 1e-6, notes))
    assert (trick is not None) == told
    assert trick is None or f"{recorded_us:.0f} µs while its operators were recorded, 70 otherwise" in trick


def test_notes_of_a_round_are_counted_by_the_call():
    reply = parse_reply({
        "outputs": [], "allocated_bytes": 0, "largest_allocated": [], "threads": 1,
        "record": {"launches": [], "launch_count": 120, "bytes_loaded": 0, "bytes_stored": 0, "faults": [],
                   "warnings": [], "unsupported": None},
        "operators": [{"name": "view", "calls": 240, "elements": 4, "bytes_touched": 8},
                      {"name": "empty", "calls": 120, "elements": 4, "bytes_touched": 8}],
    })  # fmt: skip
    player = SimpleNamespace(seconds=[80e-6, 90e-6, 85e-6], calls=120)
    assert speed.Recording.of(player, reply) == speed.Recording(85e-6, 4.0)


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
