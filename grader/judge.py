"""Trusted side: judges one case: lays it into the arena, has a worker call the submission, and looks at the outcome.

The order of judgement is fixed and the first failure is reported: the call's own error, accesses out of bounds,
modified inputs, shape, dtype, device, work left to PyTorch, finiteness, values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import torch
from torch import Tensor

from reference.exercise import DTYPES, Case, Exercise

from . import diagnose, fallback
from .arena import Laid, find_damage, logical_inputs, output_capacity, read_output
from .compare import Tolerance, allowed_error, compare
from .failures import gone_verdict, load_verdict, raised_verdict
from .reply import CallReply, MalformedReplyError, parse_reply
from .runner import Worker, WorkerGone
from .submission import Sources
from .verdict import Status, Verdict
from .zygote import Zygote


@dataclass(frozen=True)
class Target:
    """What is judged: an exercise's sources with everything that the rubric says about the call."""

    exercise: Exercise
    sources: Sources | None
    file: str
    entry: str
    tf32: bool
    case_timeout_s: float
    device: str = "cpu"
    private_cache: bool = False  # compiled kernels where no other worker can put its own


class Caller:
    """Sends requests about one target to a worker, which is forked when needed. Use as a context manager."""

    def __init__(self, zygote: Zygote, target: Target) -> None:
        self.target = target
        self._zygote = zygote
        self._worker: Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop_worker()

    def worker(self) -> Worker | Verdict:
        """A worker with the submission's file imported, or the verdict on why there is none."""
        if self._worker is not None:
            return self._worker
        target = self.target
        if target.sources is None:
            return Verdict(Status.NOT_IMPLEMENTED, f"the submission has no {target.file}",
                           f"Write {target.file} with a function {target.entry}.")  # fmt: skip
        worker = self._zygote.fork()
        target.sources.stage(worker.folder)
        message = {
            "kind": "load",
            "root": str(worker.folder),
            "file": target.sources.main,
            "entry": target.entry,
            "private_cache": target.private_cache,
        }
        reply = worker.request(message, target.case_timeout_s + self._zygote.worker_start_s)
        if not isinstance(reply, WorkerGone) and reply.get("kind") == "loaded":
            self._worker = worker
            return worker
        verdict = (
            gone_verdict(reply, worker, target.case_timeout_s)
            if isinstance(reply, WorkerGone)
            else load_verdict(reply, target.file, target.entry)
        )
        worker.close()
        return verdict

    def drop_worker(self) -> None:
        """End the worker; the next request gets a fresh one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _lose_worker(self) -> None:
        """End a worker that failed, and make sure that the GPU is well for the next."""
        self.drop_worker()
        if self.target.device == "cuda":
            from .gpu import check_health

            check_health()

    def judge(self, case: Case, tolerance: Tolerance) -> Verdict:
        """The verdict on one case. A crash must happen twice: a worker killed from outside is not the submission's."""
        verdict = self._judge_once(case, tolerance)
        if verdict.status is Status.CRASHED:
            verdict = self._judge_once(case, tolerance)
        return verdict

    def _judge_once(self, case: Case, tolerance: Tolerance) -> Verdict:
        worker = self.worker()
        if isinstance(worker, Verdict):
            return worker
        target = self.target
        size = prod(target.exercise.output_shape(shapes(case))) * DTYPES[case.dtype].itemsize
        laid = worker.arena.lay(case, output_capacity([size]))
        worker.post(_call_message(case, laid, size, tf32=target.tf32))
        expected = _Expected.of(target.exercise, case, tolerance)  # while the worker is at it
        reply = worker.wait(target.case_timeout_s)
        if isinstance(reply, WorkerGone):
            verdict = gone_verdict(reply, worker, target.case_timeout_s)
            self._lose_worker()
            return _of_case(verdict, case)
        seen = worker.arena.read(laid)
        verdict = _judge_reply(target, case, reply, laid, seen, expected, tolerance)
        if verdict.evidence.get("device_lost"):
            self._lose_worker()  # an illegal access ends a process's use of the GPU for good
        return _of_case(verdict, case)


@dataclass(frozen=True)
class _Expected:
    """The oracle's values and the allowed error, float64."""

    inputs: list[Tensor]
    values: Tensor
    allowed: Tensor

    @classmethod
    def of(cls, exercise: Exercise, case: Case, tolerance: Tolerance) -> _Expected:
        inputs = logical_inputs(case)
        options = [value for _, value in case.options]
        values = exercise.oracle(*inputs, *options)
        scale = exercise.scale(*inputs, *options)
        rms_scale = exercise.rms_scale(*inputs, *options) if exercise.rms_scale and tolerance.rms_atol else None
        return cls(inputs, values, allowed_error(values, scale, rms_scale, tolerance))


def _call_message(case: Case, laid: Laid, output_bytes: int, *, tf32: bool) -> dict[str, Any]:
    return {
        "kind": "call",
        "tensors": [placed.to_message() for placed in laid.inputs],
        "options": [value for _, value in case.options],
        "outputs": [{"offset": laid.output_offset, "bytes": output_bytes}],
        # Autotuned kernels run one configuration a case: the seed picks it, so that a case can be repeated exactly.
        "interpreter": {"config_index": case.seed, "tf32": tf32},
    }


def _of_case(verdict: Verdict, case: Case) -> Verdict:
    """The verdict with the case that showed it, where a case is to blame."""
    if verdict.status in (Status.PASSED, Status.NOT_IMPLEMENTED, Status.NOT_MEASURED):
        return verdict
    return Verdict(verdict.status, f"{verdict.message} — {case.describe()}", verdict.hint, str(case), verdict.evidence)


def _judge_reply(target: Target, case: Case, message: dict[str, Any], laid: Laid, seen: bytes, expected: _Expected,
                 tolerance: Tolerance) -> Verdict:  # fmt: skip
    try:
        reply = parse_reply(message)
    except MalformedReplyError as error:
        return Verdict(Status.CRASHED, f"the worker's reply could not be read: {error}")
    evidence = reply.evidence()
    if reply.unsupported is not None:
        return Verdict(
            Status.NOT_MEASURED,
            f"Triton's interpreter can't run {reply.unsupported}; run this exercise on a GPU",
            evidence=evidence,
        )
    if reply.faults:
        access = diagnose.explain_access(reply.faults[0])
        evidence["pitfall"] = access.pitfall
        return Verdict(Status.OUT_OF_BOUNDS, reply.faults[0], access.text, evidence=evidence)
    if reply.error is not None:
        return raised_verdict(reply.error, evidence)
    damage = find_damage(laid, seen)
    if damage is not None and damage.in_elements:
        hint = "Write the result to a new tensor, for example torch.empty_like(x)."
        return Verdict(Status.MODIFIED_INPUT, f"the input {damage.argument!r} was changed", hint, evidence=evidence)
    if damage is not None:
        return Verdict(
            Status.OUT_OF_BOUNDS,
            f"memory next to the input {damage.argument!r} was overwritten, {damage.first_byte} bytes from its start",
            "A store went outside its tensor; check its mask and its strides.",
            evidence=evidence,
        )
    verdict = _judge_form(case, reply, tuple(expected.values.shape), target.device)
    if verdict is not None:
        return Verdict(verdict.status, verdict.message, verdict.hint, evidence=evidence)
    if (work := fallback.work_left_to_torch(case, reply)) is not None:
        return Verdict(Status.FALLBACK, work, "The exercise asks for this work to be done in your Triton kernel.",
                       evidence=evidence)  # fmt: skip
    data = bytearray(read_output(laid, seen, [expected.values.numel() * DTYPES[case.dtype].itemsize])[0])
    output = torch.frombuffer(data, dtype=DTYPES[case.dtype]).reshape(expected.values.shape)
    return _judge_values(target.exercise, case, output, expected, tolerance, evidence)


def _judge_form(case: Case, reply: CallReply, shape: tuple[int, ...], device: str) -> Verdict | None:
    """Type, shape, dtype and device of the output."""
    if len(reply.outputs) != 1 or reply.outputs[0].type != "Tensor":
        kinds = ", ".join(output.type for output in reply.outputs)
        return Verdict(Status.WRONG_SHAPE, f"returned {kinds}, expected one torch.Tensor",
                       "Return the result tensor." if kinds == "NoneType" else "")  # fmt: skip
    output = reply.outputs[0]
    if output.shape != list(shape):
        return Verdict(Status.WRONG_SHAPE, f"out.shape = {output.shape}, expected {list(shape)}")
    if output.dtype != case.dtype:
        return Verdict(Status.WRONG_DTYPE, f"out.dtype = {output.dtype}, expected {case.dtype}",
                       "The result has the dtype of the input: allocate it with dtype=x.dtype.")  # fmt: skip
    if output.device != device:
        return Verdict(Status.WRONG_SHAPE, f"out.device = {output.device}, expected {device}",
                       "Allocate the result with device=x.device.")  # fmt: skip
    return None


def _judge_values(exercise: Exercise, case: Case, output: Tensor, expected: _Expected, tolerance: Tolerance,
                  evidence: dict[str, Any]) -> Verdict:  # fmt: skip
    mismatch = compare(output, expected.values, expected.allowed)
    if mismatch is None:
        return Verdict(Status.PASSED, evidence=evidence)
    where = ", ".join(map(str, mismatch.index))
    at = ""
    if expected.inputs[0].shape == output.shape and exercise.reduction_length([output.shape]) == 1:
        at = f" at {exercise.arguments[0]}[{where}] = {float(expected.inputs[0][mismatch.index]):.6g}"
    message = (
        f"out[{where}] = {mismatch.seen:.6g}{at}, expected {mismatch.expected:.6g} (allowed {mismatch.allowed:.2g}); "
        f"{mismatch.wrong} of {mismatch.total} elements are wrong"
    )
    status = Status.WRONG_VALUES if mismatch.finite else Status.NOT_FINITE
    hint = diagnose.explain_values(exercise, case, expected.inputs, output, tolerance)
    facts = {**evidence, "first_wrong": {"index": list(mismatch.index), "seen": repr(mismatch.seen),
                                         "expected": mismatch.expected, "allowed": mismatch.allowed},
             "wrong": mismatch.wrong, "total": mismatch.total}  # fmt: skip
    if hint is not None:
        facts["pitfall"] = hint.pitfall
    return Verdict(status, message, hint.text if hint else "", evidence=facts)


def shapes(case: Case) -> Sequence[tuple[int, ...]]:
    """The shapes of a case's inputs."""
    return [spec.shape for spec in case.tensors]
