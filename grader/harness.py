"""Trusted side: judges exercises in measuring: has a worker call the submission's function on a planted workload.

The judge holds what the workload takes. On a CPU it holds the whole device and the clock as well: the worker asks for
every step, so a figure can only come from doing what a measurement does. What remains: code in the worker could ask for
the steps itself and never call `run`, which is as much work as calling it. On a GPU the worker has to be told what a
call takes before it launches that; a submission that digs it out of the worker's memory could return its mean
unmeasured. The ranges are what the worker says they are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from pydantic import ValidationError

from reference.harness import Call, Harness, HarnessCase

from .errors import InfrastructureError
from .failures import gone_verdict
from .loading import open_worker
from .measured import Observed, judge_observed
from .reply import MalformedReplyError, parse_error, parse_measured
from .runner import Worker, WorkerGone
from .search import Outcome
from .simulation import Device, SimulatedDevice, Step
from .submission import Sources
from .verdict import Status, Verdict
from .zygote import Zygote


class RealDevice(Device):
    """Tells the worker what to launch, and counts."""

    def answer(self, step: Step) -> dict[str, Any]:
        """What the call does. Raises KeyError for steps that a real device does by itself."""
        if step.operation != "call":
            return super().answer(step)
        call = self.next_call()
        kernels = [[kernel.name, kernel.time_us] for kernel in call.kernels]
        return {"kernels": kernels, "host_us": call.host_us, "where": call.where, "waits": call.waits,
                "raises": call.raises}  # fmt: skip


@dataclass(frozen=True)
class HarnessTarget:
    """What is judged: a submission's functions, with what the rubric says about judging them."""

    harness: Harness
    sources: Sources | None
    file: str
    within: float
    case_timeout_s: float
    real: bool


def judge_harness(zygote: Zygote, target: HarnessTarget, cases: Sequence[HarnessCase]) -> Outcome:
    """Judge each case, those of one function in one worker, but for what is left behind where a call raises: a
    profiler that still runs. The first that failed is reported.
    """
    evidence: dict[str, Any] = {}
    judged = 0
    for (function, _), together in groupby(cases, lambda case: (case.function, case if case.check == "raises" else "")):
        found = _judge(zygote, target, function, list(together))
        judged += found.cases
        if not found.verdict.passed:
            return replace(found, cases=judged)
        evidence = found.verdict.evidence
    return Outcome(Verdict(Status.PASSED, evidence=evidence), judged, cut_short=False)


def _judge(zygote: Zygote, target: HarnessTarget, function: str, cases: Sequence[HarnessCase]) -> Outcome:
    verdict, judged = Verdict(Status.PASSED), 0
    # On a real device something else may have come between; a crash may have come from outside.
    uncertain = {Status.CRASHED, Status.WRONG_VALUES} if target.real else {Status.CRASHED}
    for attempt in (1, 2):
        worker = open_worker(zygote, target.sources, target.file, function, target.case_timeout_s,
                             plant="real" if target.real else "simulated")  # fmt: skip
        if isinstance(worker, Verdict):
            return Outcome(worker, 0, cut_short=False)
        try:
            judged = 0
            for case in cases:
                judged += 1
                verdict = _converse(worker, target, case)
                if not verdict.passed:
                    break
        finally:
            worker.close()
        if attempt == 2 or verdict.status not in uncertain:
            break
    return Outcome(verdict, judged, cut_short=False)


def _converse(worker: Worker, target: HarnessTarget, case: HarnessCase) -> Verdict:
    planted = target.harness.calls(case)
    times_ms = _own_times(planted, target.within) if target.real else [call.time_us / 1e3 for call in planted]
    device = RealDevice(planted) if target.real else SimulatedDevice(planted)
    deadline = time.monotonic() + target.case_timeout_s
    message: dict[str, Any] = {"kind": "measure", "arguments": case.arguments}
    while True:
        reply = worker.request(message, deadline - time.monotonic())
        if isinstance(reply, WorkerGone):
            verdict = gone_verdict(reply, worker, target.case_timeout_s)
            return Verdict(verdict.status, f"{verdict.message} — {case.describe()}", verdict.hint, str(case),
                           verdict.evidence)  # fmt: skip
        try:
            if reply.get("kind") == "step":
                step = Step.model_validate(reply)
                device.hear(step.marks)
                message = {"kind": "answer", **device.answer(step)}
                continue
            outcome = parse_error(reply.get("error")) if reply.get("kind") == "raised" else parse_measured(reply)
        except (MalformedReplyError, ValidationError, KeyError) as error:
            return Verdict(Status.CRASHED, f"the worker's reply could not be read: {error}", case=str(case))
        return judge_observed(Observed(target.harness, case, planted, times_ms, target.within, device.calls, outcome))


def _own_times(planted: Sequence[Call], within: float) -> list[float]:
    """What the calls take by the judge's own clock, in ms. Raises InfrastructureError where the device is not idle."""
    import torch

    from . import planted as kernels

    kernels.warm_up()
    times_ms = []
    for call in planted:
        if call.raises:
            continue
        begin = time.perf_counter()
        kernels.run([(kernel.name, kernel.time_us) for kernel in call.kernels], call.host_us, call.where,
                    waits=call.waits)  # fmt: skip
        torch.cuda.synchronize()
        times_ms.append((time.perf_counter() - begin) * 1e3)
        if abs(times_ms[-1] * 1e3 - call.time_us) > within * call.time_us:
            raise InfrastructureError(f"a planted call of {call.time_us:.0f} µs took {times_ms[-1] * 1e3:.0f} µs; is "
                                      "something else running on the GPU?")  # fmt: skip
    return times_ms
