"""Trusted side: the check `speed`: a submission against a baseline on one benchmark, as credit between 0 and 1."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reference.exercise import DTYPES, Case, Exercise

from . import hardware, statistics
from .compare import Tolerance, allowed_error, compare
from .device import Device
from .failures import gone_verdict, raised_verdict
from .judge import Caller, Target, shapes
from .reply import MalformedReplyError, parse_error
from .runner import Worker, WorkerGone
from .submission import Sources
from .timing import MOST_CALLS, Duel, Player, Pool, TimingError
from .verdict import Status, Verdict
from .zygote import Zygote

PILOT_ROUNDS = 6
LEAST_ROUNDS = 12
MOST_ROUNDS = 60
WANTED_HALF_WIDTH = 0.003
# Below this share of the least possible time no kernel can be: the data sheet's clock may be a little low.
IMPOSSIBLE_SHARE = 0.9
# Reading the outputs takes as long for the submission as for the baseline. What goes beyond is work that was put off;
# all of a round's work would be 9 ms.
LATE_FACTOR = 1.5
LATE_FIXED_S = 0.002


@dataclass(frozen=True)
class SpeedRun:
    """What to time: a case, the baseline's name, and the thresholds of this GPU."""

    case: Case
    baseline: str
    floor: float
    target: float
    tolerance: Tolerance


# Runs `timed` once a round, between `before` and `after`: (before, timed, after, number of rounds).
Rounds = Callable[[Callable[[], None], Callable[[], None], Callable[[], None], int], None]


def judge_speed(zygote: Zygote, target: Target, run: SpeedRun, device: Device, seed: int, rounds: Rounds) -> Verdict:
    """Time the submission against the baseline. The verdict's evidence has `credit` and every number behind it."""
    with ExitStack() as stack:
        submission = _player(stack, zygote, target, run.case, "student")
        if isinstance(submission, Verdict):
            return submission
        # Forked after the submission's worker, but from the zygote, which has run no submission's code.
        baseline = _player(stack, zygote, baseline_target(target, run.baseline), run.case, run.baseline)
        assert isinstance(baseline, Player), f"the baseline does not load: {baseline}"
        pool = Pool.allocate(run.case, target.exercise.output_shape(shapes(run.case)), MOST_CALLS)
        stack.callback(pool.memory.close)
        try:
            return _duel(target.exercise, run, device, pool, baseline, submission, seed, rounds)
        except TimingError as error:
            return _failed(error, submission.worker)


def _player(stack: ExitStack, zygote: Zygote, target: Target, case: Case, name: str) -> Player | Verdict:
    worker = stack.enter_context(Caller(zygote, target)).worker()
    if isinstance(worker, Verdict):
        return worker
    # No slash: ncu takes it for nesting.
    size = "_".join("x".join(map(str, spec.shape)) for spec in case.tensors)
    return Player(name, worker, f"{case.exercise}.{name}.{size}.{case.dtype}")


def baseline_target(target: Target, name: str) -> Target:
    """A worker's sources that give a baseline: it is timed by the same code as the submission, in its own process."""
    root = str(Path(__file__).parent.parent)
    code = textwrap.dedent(f"""\
        import sys
        sys.path.append({root!r})
        import torch
        import reference
        baselines = reference.load({target.exercise.id!r}).baselines
        baseline = torch.compile(baselines["eager"]) if {name!r} == "compile" else baselines[{name!r}]
        """)
    return Target(target.exercise, Sources("baseline.py", {"baseline.py": code.encode()}), "baseline.py", "baseline",
                  tf32=target.tf32, case_timeout_s=120.0)  # fmt: skip


def _duel(exercise: Exercise, run: SpeedRun, device: Device, pool: Pool, baseline: Player, submission: Player,
          seed: int, rounds: Rounds) -> Verdict:  # fmt: skip
    duel = Duel(
        baseline, submission, pool, lambda call: _complaint(exercise, run, pool, call), device.wait_until_idle, seed
    )
    for _ in range(PILOT_ROUNDS + 1):
        duel.before()
        duel.timed()
        duel.after()
        if duel.complaint is not None:
            return Verdict(Status.WRONG_VALUES, f"{duel.complaint} — {run.case.describe()}", case="")
    # The first pair allocates the memory that later ones find in the allocator's cache.
    pilot = statistics.speedup(baseline.seconds[1:], submission.seconds[1:])
    needed = statistics.rounds_needed(
        pilot, PILOT_ROUNDS, (run.floor, run.target), LEAST_ROUNDS, MOST_ROUNDS, WANTED_HALF_WIDTH
    )
    for player in (baseline, submission):
        player.seconds.clear()
        player.fetch_seconds.clear()
    before = device.state()
    rounds(duel.before, duel.timed, duel.after, needed)
    if duel.complaint is not None:
        return Verdict(Status.WRONG_VALUES, f"{duel.complaint} — {run.case.describe()}")
    states = [before, device.state()]
    return _verdict(exercise, run, device, duel, states, _other_baselines_us(exercise, run, pool, duel.calls))


def _other_baselines_us(exercise: Exercise, run: SpeedRun, pool: Pool, calls: int) -> dict[str, float]:
    """The other baselines' time per call in µs, for comparison only: by CUDA events, in the judge's own process."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    chosen = exercise.baselines.get(run.baseline)
    times = {}
    for name, baseline in exercise.baselines.items():
        if baseline is not chosen:
            for record in (False, True):
                start.record()
                for call in range(calls):
                    baseline(*(pool.input(call, index) for index in range(len(run.case.tensors))))
                end.record()
                torch.cuda.synchronize()
                if record:
                    times[name] = 1e3 * float(start.elapsed_time(end)) / calls
    torch.cuda.empty_cache()
    return times


def _complaint(exercise: Exercise, run: SpeedRun, pool: Pool, call: int) -> str | None:
    """What is wrong with one output of a timed round, judged like any other."""
    inputs = [pool.input(call, index).to(torch.float64) for index in range(len(run.case.tensors))]
    expected = exercise.oracle(*inputs)
    scale = exercise.scale(*inputs)
    rms_scale = exercise.rms_scale(*inputs) if exercise.rms_scale and run.tolerance.rms_atol else None
    mismatch = compare(pool.output(call), expected, allowed_error(expected, scale, rms_scale, run.tolerance))
    if mismatch is None:
        return None
    where = ", ".join(map(str, mismatch.index))
    return (
        f"while it was timed: out[{where}] = {mismatch.seen:.6g}, expected {mismatch.expected:.6g} "
        f"(allowed {mismatch.allowed:.2g}); {mismatch.wrong} of {mismatch.total} elements are wrong"
    )


def _verdict(exercise: Exercise, run: SpeedRun, device: Device, duel: Duel, states: list[dict[str, Any]],
             others_us: dict[str, float]) -> Verdict:  # fmt: skip
    measured = statistics.speedup(duel.baseline.seconds, duel.submission.seconds)
    credit, borderline = statistics.credit(measured, run.floor, run.target)
    cost = exercise.cost(shapes(run.case), DTYPES[run.case.dtype].itemsize)
    least_us = hardware.least_time_us(cost, run.case.dtype, device.limits)
    times_us = {player.name: _median_us(player.seconds) for player in (duel.baseline, duel.submission)}
    time_us = times_us[duel.submission.name]
    fetch_us, usual_fetch_us = (_median_us(player.fetch_seconds) for player in (duel.submission, duel.baseline))
    evidence: dict[str, Any] = {
        "credit": credit, "borderline": borderline,
        "speedup": measured.median, "low": measured.low, "high": measured.high,
        "floor": run.floor, "target": run.target, "baseline": run.baseline,
        "time_us": time_us, "baseline_us": times_us[duel.baseline.name], "least_us": least_us,
        "baselines_us": {run.baseline: times_us[duel.baseline.name], **others_us},
        "nvtx_range": f"grader@{duel.submission.label}/",
        "gb_s": cost.bytes_moved / time_us / 1e3, "tflop_s": cost.flops / time_us / 1e6,
        "percent_of_limit": 100 * least_us / time_us,
        "calls_a_round": duel.calls, "rounds": len(duel.submission.seconds),
        "rounds_us": [round(s * 1e6, 3) for s in duel.submission.seconds],
        "baseline_rounds_us": [round(s * 1e6, 3) for s in duel.baseline.seconds],
        "fetch_us": fetch_us, "baseline_fetch_us": usual_fetch_us, "device": states,
    }  # fmt: skip
    seen = (
        f"{time_us:.1f} µs, {measured.median:.2f} × {run.baseline} ({measured.low:.2f}–{measured.high:.2f}), "
        f"{evidence['percent_of_limit']:.0f} % of this GPU's limit"
    )
    if time_us < IMPOSSIBLE_SHARE * least_us:
        return Verdict(Status.FORBIDDEN, f"{seen}: faster than this GPU can move the data ({least_us:.1f} µs) — "
                       f"{run.case.describe()}", "The call must do its work before it returns.",
                       evidence=evidence)  # fmt: skip
    if fetch_us > LATE_FACTOR * usual_fetch_us + LATE_FIXED_S * 1e6:
        return Verdict(Status.FORBIDDEN, f"{seen}: but its results took {fetch_us / 1e3:.1f} ms to read, those of the "
                       f"baseline {usual_fetch_us / 1e3:.1f}: work was put off — {run.case.describe()}",
                       "The call must do its work before it returns.", evidence=evidence)  # fmt: skip
    if credit <= 0:
        return Verdict(Status.TOO_SLOW, f"{seen}; points begin at {run.floor:g} × — {run.case.describe()}",
                       _advice(evidence), evidence=evidence)  # fmt: skip
    return Verdict(Status.PASSED, seen, evidence=evidence)


def _advice(evidence: dict[str, Any]) -> str:
    return (
        f"It reaches {evidence['gb_s']:.0f} GB/s and {evidence['tflop_s']:.1f} TFLOP/s. Look at the check `fused` for "
        "the passes over memory, then at block sizes, num_warps and what a program loads at once."
    )


def _median_us(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) // 2] * 1e6


def _failed(error: TimingError, submission: Worker) -> Verdict:
    if error.player != "student":
        raise RuntimeError(f"the baseline failed: {error.reply}")
    if isinstance(error.reply, WorkerGone):
        return gone_verdict(error.reply, submission, 120.0)
    try:
        return raised_verdict(parse_error(error.reply.get("error")), {})
    except MalformedReplyError as problem:
        return Verdict(Status.CRASHED, f"the worker's reply could not be read: {problem}")
