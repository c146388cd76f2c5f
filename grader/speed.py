"""Trusted side: the check `speed`: a submission against a baseline on one benchmark, as credit between 0 and 1."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from reference.exercise import DTYPES, Case, Exercise

from . import fallback, hardware, statistics, tricks
from .compare import Tolerance, compare
from .device import Device
from .errors import InfrastructureError
from .expected import expected_outputs
from .failures import gone_verdict, raised_verdict
from .items import Rounds
from .judge import Caller, Target
from .peers import Peers
from .players import NVTX_DOMAIN, STUDENT, baseline_sources, range_name
from .reply import CallReply, MalformedReplyError, parse_error, parse_reply
from .runner import Worker, WorkerGone
from .timing import MOST_CALLS, REPLY_TIMEOUT_S, BusyError, Duel, Player, Pool, TimingError
from .verdict import Status, Verdict
from .zygote import Zygote

PILOT_ROUNDS = 6
LEAST_ROUNDS = 24  # fresh runs repeat within 0.6 to 1 % of their median; with 12 it was 1.2 to 3 %
MOST_ROUNDS = 60
WANTED_HALF_WIDTH = 0.003
# Below this share of the least possible time no kernel can be: the data sheet's clock may be a little low.
IMPOSSIBLE_SHARE = 0.9
# Not worth timing: this many times slower than what earns the first point.
HOPELESS_FACTOR = 4.0


@dataclass(frozen=True)
class SpeedRun:
    """What to time: a case, the baseline's name, and the thresholds of this GPU."""

    case: Case
    baseline: str
    floor: float
    target: float
    tolerance: Tolerance


def judge_speed(zygote: Zygote, baselines: Zygote, target: Target, run: SpeedRun, device: Device, peers: Peers,
                seed: int, rounds: Rounds) -> Verdict:  # fmt: skip
    """Time the submission against the baseline, whose worker comes from `baselines`.

    The verdict's evidence has `credit` and every number behind it. The GPU is held by the caller, and `peers` is ready.
    """
    with ExitStack() as stack, ExitStack() as submitted:
        # The baseline and the memory first: nothing that the submission does when it is loaded can be in their way.
        baseline = _player(stack, baselines, baseline_target(target, run.baseline), run.case, run.baseline)
        if isinstance(baseline, Verdict):
            raise InfrastructureError(f"the baseline does not load: {baseline.message}")
        pool = Pool.allocate(target.exercise, run.case, MOST_CALLS)
        stack.callback(pool.memory.close)
        submission = _player(submitted, zygote, target, run.case, STUDENT)
        if isinstance(submission, Verdict):
            return submission
        try:
            return _duel(target.exercise, run, device, peers, pool, baseline, submission, seed, rounds)
        except TimingError as error:
            if error.player == submission.name:
                return _failed(error.reply, submission.worker)
            problem = f"the baseline failed: {error.reply}"
        except MalformedReplyError as error:
            return Verdict(Status.CRASHED, f"the worker's reply could not be read: {error}")
        except BusyError as error:
            problem = str(error)
        # Whose fault it was shows once the submission's processes are gone.
        submitted.close()
        if not device.is_idle():
            raise InfrastructureError(f"{problem}; the GPU is busy with other work ({device.state()})")
        try:
            baseline = _player(stack, baselines, baseline_target(target, run.baseline), run.case, run.baseline)
            assert isinstance(baseline, Player)
            baseline.attach(pool)
            baseline.calls = 2
            baseline.prepare(pool)
            baseline.run()
        except TimingError as error:
            raise InfrastructureError(f"the baseline failed: {error.reply}") from None
        return Verdict(
            Status.FORBIDDEN,
            f"{problem}, and no more once the submission's processes were gone — {run.case.describe()}",
            "Leave no work, memory or processes behind that outlive the call.",
        )


def _player(stack: ExitStack, zygote: Zygote, target: Target, case: Case, name: str) -> Player | Verdict:
    worker = stack.enter_context(Caller(zygote, target)).worker()
    if isinstance(worker, Verdict):
        return worker
    return Player(name, worker, range_name(case, name))


def baseline_target(target: Target, name: str) -> Target:
    """A worker's sources that give a baseline: it is timed by the same code as the submission, in its own process."""
    return Target(target.exercise, baseline_sources(target.exercise.id, name), "baseline.py", "baseline",
                  tf32=target.tf32, case_timeout_s=120.0, private_cache=True)  # fmt: skip


def _duel(exercise: Exercise, run: SpeedRun, device: Device, peers: Peers, pool: Pool, baseline: Player,
          submission: Player, seed: int, rounds: Rounds) -> Verdict:  # fmt: skip
    recorded: list[CallReply] = []

    def judge_round(reply: dict[str, Any], output: torch.Tensor, kept: list[torch.Tensor]) -> Verdict | None:
        if submission.recorded:
            recorded.append(parse_reply(reply))
        return _complaint(exercise, run, recorded[-1] if submission.recorded else None, output, kept)

    duel = Duel(baseline, submission, pool, judge_round, device.is_idle, device.is_throttled, seed)
    if (hopeless := _hopeless(run, duel)) is not None:
        return hopeless
    for player in (baseline, submission):
        player.forget()
    # A log of operators takes some time of its own. Its rounds do not count, but have to take about as long.
    submission.recorded = True
    for _ in range(PILOT_ROUNDS):
        duel.before()
        duel.timed()
        duel.after()
        if duel.complaint is not None:
            return duel.complaint
    submission.recorded = False
    recording = tricks.Recording.of(submission, recorded[-1])
    pilot = statistics.speedup(baseline.seconds, submission.seconds)
    needed = statistics.rounds_needed(
        pilot, PILOT_ROUNDS, (run.floor, run.target), LEAST_ROUNDS, MOST_ROUNDS, WANTED_HALF_WIDTH
    )
    for player in (baseline, submission):
        player.forget()
    before = device.state()
    rounds(duel.before, duel.timed, duel.after, needed)
    if duel.complaint is not None:
        return duel.complaint
    states = [before, device.state()]
    return _verdict(exercise, run, device, duel, recording, states, peers.times_us(run.case))


def _hopeless(run: SpeedRun, duel: Duel) -> Verdict | None:
    """The verdict on a submission so far below the floor that timing it would only take time."""
    time_s, baseline_s = duel.submission.seconds[-1], duel.baseline.seconds[-1]
    if time_s <= HOPELESS_FACTOR * baseline_s / run.floor:
        return None
    return Verdict(
        Status.TOO_SLOW,
        f"about {time_s * 1e6:.0f} µs, {baseline_s / time_s:.3f} × {run.baseline}; points begin at {run.floor:g} × — "
        f"{run.case.describe()}",
        "Look at the check `fused` for the passes over memory, and at how many programs share the work.",
    )


def _complaint(exercise: Exercise, run: SpeedRun, recorded: CallReply | None, output: torch.Tensor,
               kept: list[torch.Tensor]) -> Verdict | None:  # fmt: skip
    """What is wrong with a timed round: who did the work, where that was recorded, or the values of one output."""
    if recorded is not None and (work := fallback.work_left_to_torch(run.case, recorded)) is not None:
        return Verdict(Status.FALLBACK, f"while it was timed: {work} — {run.case.describe()}",
                       fallback.HINT)  # fmt: skip
    inputs = [value.to(torch.float64) for value in kept]
    (expected,) = expected_outputs(exercise, run.case, inputs, run.tolerance)
    mismatch = compare(output, expected.values, expected.allowed)
    if mismatch is None:
        return None
    where = ", ".join(map(str, mismatch.index))
    return Verdict(
        Status.WRONG_VALUES,
        f"while it was timed: out[{where}] = {mismatch.seen:.6g}, expected {mismatch.expected:.6g} (allowed "
        f"{mismatch.allowed:.2g}); {mismatch.wrong} of {mismatch.total} elements are wrong — {run.case.describe()}",
    )


def _verdict(exercise: Exercise, run: SpeedRun, device: Device, duel: Duel, recording: tricks.Recording,
             states: list[dict[str, Any]], peers_us: dict[str, float | str]) -> Verdict:  # fmt: skip
    measured = statistics.speedup(duel.baseline.seconds, duel.submission.seconds)
    credit, borderline = statistics.credit(measured, run.floor, run.target)
    element_bytes = DTYPES[run.case.dtype].itemsize
    cost = exercise.cost(exercise.shapes(run.case), element_bytes, **exercise.options_of(run.case))
    least_us = hardware.least_time_us(cost, run.case.dtype, device.limits)
    times_us = {player.name: 1e6 * statistics.median(player.seconds) for player in (duel.baseline, duel.submission)}
    time_us = times_us[duel.submission.name]
    fetch_us, usual_fetch_us = (1e6 * statistics.median(p.fetch_seconds) for p in (duel.submission, duel.baseline))
    evidence: dict[str, Any] = {
        "credit": credit, "borderline": borderline,
        "speedup": measured.median, "low": measured.low, "high": measured.high,
        "floor": run.floor, "target": run.target, "baseline": run.baseline,
        "time_us": time_us, "baseline_us": times_us[duel.baseline.name], "least_us": least_us,
        "baselines_us": {**peers_us, run.baseline: times_us[duel.baseline.name]},
        "nvtx_range": f"{NVTX_DOMAIN}@{duel.submission.label}/",
        "gb_s": cost.bytes_moved / time_us / 1e3, "tflop_s": cost.flops / time_us / 1e6,
        "percent_of_limit": 100 * least_us / time_us,
        "bound_by": hardware.bound_by(cost, run.case.dtype, device.limits),
        "calls_a_round": duel.submission.calls, "baseline_calls_a_round": duel.baseline.calls,
        "rounds": len(duel.submission.seconds), "repeated_rounds": duel.repeated,
        "rounds_us": [round(s * 1e6, 3) for s in duel.submission.seconds],
        "baseline_rounds_us": [round(s * 1e6, 3) for s in duel.baseline.seconds],
        "recorded_us": recording.seconds * 1e6, "notes_a_call": recording.notes,
        "fetch_us": fetch_us, "baseline_fetch_us": usual_fetch_us, "device": states,
    }  # fmt: skip
    seen = _summary(evidence)
    if time_us < IMPOSSIBLE_SHARE * least_us:
        return Verdict(Status.FORBIDDEN, f"{seen}: faster than this GPU can move the data ({least_us:.1f} µs) — "
                       f"{run.case.describe()}", "The call must do its work before it returns.",
                       evidence=evidence)  # fmt: skip
    if (trick := tricks.trick(duel, recording)) is not None:
        return Verdict(Status.FORBIDDEN, f"{seen}: but {trick} — {run.case.describe()}",
                       "The call must do its work before it returns.", evidence=evidence)  # fmt: skip
    if credit <= 0:
        return Verdict(Status.TOO_SLOW, f"{seen} — {run.case.describe()}", _advice(evidence), evidence=evidence)
    return Verdict(Status.PASSED, seen, evidence=evidence, staff=tricks.suspicions(duel, recording, time_us, least_us))


def _summary(evidence: dict[str, Any]) -> str:
    """The time and the speedup with its interval and thresholds, the rate, and the baselines side by side."""
    by_memory = evidence["bound_by"] == "memory"
    rate = f"{evidence['gb_s']:.0f} GB/s" if by_memory else f"{evidence['tflop_s']:.0f} TFLOP/s"
    beside = ", ".join(f"{name} {time_us:.1f} µs" for name, time_us in evidence["baselines_us"].items()
                       if isinstance(time_us, float))  # fmt: skip
    return (
        f"{evidence['time_us']:.1f} µs, {evidence['speedup']:.2f} × {evidence['baseline']} ({evidence['low']:.2f}–"
        f"{evidence['high']:.2f}; points from {evidence['floor']:g} ×, all from {evidence['target']:g} ×), {rate}, "
        f"{evidence['percent_of_limit']:.0f} % of this GPU's limit; {beside}"
    )


def _advice(evidence: dict[str, Any]) -> str:
    return (
        f"It reaches {evidence['gb_s']:.0f} GB/s and {evidence['tflop_s']:.1f} TFLOP/s. Look at the check `fused` for "
        "the passes over memory, then at block sizes, num_warps and what a program loads at once."
    )


def _failed(reply: dict[str, Any] | WorkerGone, submission: Worker) -> Verdict:
    if isinstance(reply, WorkerGone):
        return gone_verdict(reply, submission, REPLY_TIMEOUT_S)
    try:
        return raised_verdict(parse_error(reply.get("error")), {})
    except MalformedReplyError as problem:
        return Verdict(Status.CRASHED, f"the worker's reply could not be read: {problem}")
