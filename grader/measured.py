"""What a function that measures has done and returned, against what was planted. Pure: facts in, verdicts out.

A check looks only at what it is about: `warmup`, `average` and `profile` count the calls of `run`, all but `raises` and
`nvtx` look at the figures, `nvtx` at the ranges. The first fault is reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from reference.harness import Call, Harness, HarnessCase

from .failures import raised_verdict
from .reply import ErrorReply, MeasuredReply
from .simulation import NOT_READY, Calls
from .verdict import Status, Verdict

COUNTED = ("warmup", "average", "profile")
# A figure below this share of the right one has not waited for the device.
LAUNCHING = 0.1
UNITS_PER_US = {"milliseconds": 1e-3, "seconds": 1e-6, "nanoseconds": 1e3}


@dataclass(frozen=True)
class Observed:
    """One call of a student's function: what the judge saw, and what came back, a value or an error.

    `times_ms` are those of the planted calls, `within` is the part by which a figure may be off.
    """

    harness: Harness
    case: HarnessCase
    planted: Sequence[Call]
    times_ms: Sequence[float]
    within: float
    seen: Calls
    reply: MeasuredReply | ErrorReply

    def close(self, figure: float, to: float) -> bool:
        """Whether a figure is another as far as it can be told."""
        return abs(figure - to) <= self.within * abs(to)


def judge_observed(observed: Observed) -> Verdict:
    """The verdict on one call."""
    case, seen = observed.case, observed.seen
    evidence: dict[str, Any] = {"calls_of_run": seen.count, "ranges": [each.name for each in seen.ranges[:16]]}
    if isinstance(observed.reply, ErrorReply):
        verdict = _judge_raised(observed, observed.reply)
    elif case.check == "raises":
        verdict = _judge_swallowed(observed, observed.reply)
    elif case.check == "nvtx":
        verdict = _judge_ranges(observed)
    else:
        judge = _judge_mean if case.function == "benchmark" else _judge_rows
        miscounted = _judge_count(observed) if case.check in COUNTED else None
        verdict = miscounted or judge(observed, observed.reply)
    if verdict.status in (Status.PASSED, Status.NOT_IMPLEMENTED):
        return Verdict(verdict.status, verdict.message, verdict.hint, evidence={**evidence, **verdict.evidence})
    return Verdict(verdict.status, f"{verdict.message} — {case.describe()}", verdict.hint, str(case),
                   {**evidence, **verdict.evidence})  # fmt: skip


def _judge_raised(observed: Observed, error: ErrorReply) -> Verdict:
    function = observed.case.function
    number, planted = next(((n, call.raises) for n, call in enumerate(observed.planted, 1) if call.raises), (0, ""))
    if not planted or observed.seen.count < number or "NotImplementedError" in error.bases:
        verdict = raised_verdict(error, {})
        return Verdict(verdict.status, verdict.message, verdict.hint or _raised_hint(error), evidence=verdict.evidence)
    if (error.type, error.message) != ("PlantedError", planted):
        return Verdict(Status.RAISED, f"run raised PlantedError: {planted}, but {function} raised {error.type}: "
                       f"{error.message}", "Let what run() raises pass as it is.")  # fmt: skip
    if observed.seen.count > number:
        return _wrong(
            f"run raised in call {number} and was called again, {observed.seen.count} times in all",
            "Let what run() raises pass at once.",
        )
    return Verdict(Status.PASSED)


def _raised_hint(error: ErrorReply) -> str:
    if NOT_READY in error.message:
        return ("elapsed_time() wants events that have happened: wait first, by end.synchronize() or "
                "torch.cuda.synchronize().")  # fmt: skip
    if any(words in error.message for words in ("not compiled with CUDA", "NVIDIA driver", "CUDA GPUs")):
        return "Without a GPU the device is simulated: it has streams, events and a profiler, but no tensors."
    return ""


def _judge_swallowed(observed: Observed, reply: MeasuredReply) -> Verdict:
    number = next(n for n, call in enumerate(observed.planted, 1) if call.raises)
    if observed.seen.count < number:
        return _wrong(
            f"run was called {_times(observed.seen.count)}, expected {number} at least",
            "Call run() once for each warm-up and each trial.",
        )
    returned = f"{reply.number:g}" if reply.number is not None else reply.type
    return _wrong(
        f"run raised an exception in call {number}, and {observed.case.function} "
        f"returned {returned} as if nothing had happened",
        "Let what run() raises pass: a benchmark that hides it reports the time of a failure.",
    )


def _judge_count(observed: Observed) -> Verdict | None:
    case, count = observed.case, observed.seen.count
    if count == case.calls:
        return None
    if case.function == "profile":
        wanted = f"{case.warmups} to warm up and 1 to profile"
    else:
        wanted = f"{case.warmups} to warm up and {case.trials} trial{'s' if case.trials != 1 else ''}"
    hint = "Call run() once for each warm-up and once for each trial, not more."
    if count == 0:
        hint = "run() was never called."
    elif case.warmups and count == case.trials:
        hint = ("The warm-ups are missing: the first calls compile and tune, so call run() num_warmups times before "
                "anything is measured.")  # fmt: skip
    elif count == case.warmups + 1:
        hint = "There is one trial only; times vary, so measure num_trials of them and take the mean."
    return _wrong(f"run was called {_times(count)}, expected {case.calls}: {wanted}", hint)


def _judge_mean(observed: Observed, reply: MeasuredReply) -> Verdict:
    case, figure = observed.case, reply.number
    if figure is None:
        return Verdict(Status.WRONG_SHAPE, f"benchmark returned {reply.type}, expected a number of milliseconds",
                       "Return a float; a tensor gives one by .item().")  # fmt: skip
    warmups, trials = observed.times_ms[: case.warmups], observed.times_ms[case.warmups :]
    expected = math.fsum(trials) / len(trials)
    evidence: dict[str, Any] = {"returned_ms": repr(figure), "expected_ms": expected, "trials_ms": list(trials)[:16]}
    if observed.close(figure, expected):
        return Verdict(Status.PASSED, evidence=evidence)
    message = f"benchmark returned {figure:.4g} ms, expected {expected:.4g} ms ± {100 * observed.within:g} %"
    for pitfall, mistake in observed.harness.mistakes.items():
        if observed.close(figure, mistake.of(warmups, trials)):
            return Verdict(Status.WRONG_VALUES, message, f"The figure is that of a known mistake: {mistake.says}.",
                           evidence={**evidence, "pitfall": pitfall})  # fmt: skip
    if abs(figure) < LAUNCHING * expected:
        return Verdict(
            Status.WRONG_VALUES, message, _waiting_hint(observed), evidence={**evidence, "pitfall": "no_wait"}
        )
    return Verdict(Status.WRONG_VALUES, message, "", evidence=evidence)


def _waiting_hint(observed: Observed) -> str:
    if observed.planted[-1].where == "left":
        return ("The work is on a side stream. Events on the current stream and current_stream().synchronize() don't "
                "see it; torch.cuda.synchronize() waits for all streams: call it before you read the clock or record "
                "the end event.")  # fmt: skip
    return ("That is about what launching takes: run() returns before its work is over. Call torch.cuda.synchronize() "
            "before you read the clock, or record events and wait for them.")  # fmt: skip


def _judge_rows(observed: Observed, reply: MeasuredReply) -> Verdict:
    if reply.rows is None:
        return Verdict(Status.WRONG_SHAPE, f"profile returned {reply.type}, expected a list of rows "
                       "(kernel, calls, microseconds)", "Build the rows from prof.key_averages().")  # fmt: skip
    for number, row in enumerate(reply.rows):
        if row is None:
            return Verdict(Status.WRONG_SHAPE, f"row {number} is not (kernel, calls, microseconds)",
                           "A row is a tuple of a string and two numbers.")  # fmt: skip
    rows = [row for row in reply.rows if row is not None]
    wanted = _kernels(observed.planted[-1])
    evidence = {"rows": rows[:16], "expected_rows": [[name, *facts] for name, facts in wanted.items()]}
    planted = {kernel.name for call in observed.planted for kernel in call.kernels}
    verdict = _judge_names([row[0] for row in rows], list(wanted), planted) or _judge_times(observed, rows, wanted)
    return Verdict(verdict.status, verdict.message, verdict.hint, evidence=evidence)


def _kernels(call: Call) -> dict[str, tuple[int, float]]:
    """Launches and µs of each kernel of a call."""
    found: dict[str, tuple[int, float]] = {}
    for kernel in call.kernels:
        count, time_us = found.get(kernel.name, (0, 0.0))
        found[kernel.name] = (count + 1, time_us + kernel.time_us)
    return found


def _judge_names(names: Sequence[str], wanted: Sequence[str], planted: set[str]) -> Verdict | None:
    """`wanted` ran in the profiled call, `planted` in any."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return _wrong(
            f"there are {names.count(twice)} rows for {twice}, expected one a kernel",
            "Add up the launches of a kernel, as key_averages() does.",
        )
    if missing := [name for name in wanted if name not in names]:
        return _wrong(
            f"there is no row for {', '.join(missing)}",
            "Profile the whole call with ProfilerActivity.CUDA, and leave none of its kernels out.",
        )
    if extra := [name for name in names if name not in wanted]:
        hint = "It ran in an earlier call only: profile one call, after the warm-ups."
        if extra[0] not in planted:
            hint = "Keep only what ran on the device: rows whose device_type is DeviceType.CUDA."
        return _wrong(f"there is a row for {', '.join(extra[:3])}, no kernel of the call", hint)
    return None


def _judge_times(
    observed: Observed, rows: Sequence[tuple[str, float, float]], wanted: dict[str, tuple[int, float]]
) -> Verdict:
    for name, count, time_us in rows:
        expected_count, expected_us = wanted[name]
        if count != expected_count:
            return _wrong(
                f"{name}: {count:g} calls, expected {expected_count}",
                "Count the kernel's launches in one call of run().",
            )
        if not observed.close(time_us, expected_us):
            units = {f"it is in {unit}": expected_us * factor for unit, factor in UNITS_PER_US.items()}
            mistakes = {"it is the time of one launch, not their sum": expected_us / count, **units}
            says = next((says for says, figure in mistakes.items() if observed.close(time_us, figure)), "")
            return _wrong(
                f"{name}: {time_us:.6g} µs, expected {expected_us:.6g} µs ± {100 * observed.within:g} %",
                f"The time is that of a known mistake: {says}." if says else "",
            )
    for (name, _, time_us), (after, _, time_after_us) in pairwise(rows):
        if time_us < time_after_us:
            return _wrong(
                f"{name} stands before {after}, which took longer", "Sort the rows by their time, the longest first."
            )
    return Verdict(Status.PASSED)


def _judge_ranges(observed: Observed) -> Verdict:
    case, seen = observed.case, observed.seen
    warmup, trial = observed.harness.ranges[case.function]
    close = 'Open and close them by `with`, as in `with torch.cuda.nvtx.range("trial"):`, or nvtx.annotate.'
    own = f"Put each measured call of run() into a range of its own whose name begins with {trial!r}."
    if not seen.ranges:
        return _wrong(f"{case.function} opened no NVTX range", close)
    if seen.left_open:
        more = f" and {len(seen.left_open) - 3} more" if len(seen.left_open) > 3 else ""
        return _wrong(f"NVTX ranges were left open: {', '.join(map(repr, seen.left_open[:3]))}{more}", close)
    if seen.pops_without_push:
        return _wrong(f"{_times(seen.pops_without_push)} an NVTX range was closed that was not open", close)
    of_trials = [each for each in seen.ranges if each.name.lower().startswith(trial)]
    of_warmups = [each for each in seen.ranges if each.name.lower().startswith(warmup)]
    if len(of_trials) != case.trials:
        return _wrong(f"{len(of_trials)} NVTX ranges are named {trial}…, expected {case.trials}", own)
    for each in of_trials:
        if each.calls != 1:
            return _wrong(f"run was called {_times(each.calls)} in the NVTX range {each.name!r}, expected once", own)
    for number in range(seen.count):
        if not any(each.holds(number) for each in [*of_trials, *of_warmups]):
            return _wrong(
                f"call {number + 1} of run is in no NVTX range named {warmup}… or {trial}…",
                f"Put the warm-ups into a range whose name begins with {warmup!r}.",
            )
    return Verdict(Status.PASSED)


def _wrong(message: str, hint: str) -> Verdict:
    return Verdict(Status.WRONG_VALUES, message, hint)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
