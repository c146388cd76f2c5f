"""Trusted side: judges one case: lays it into the arena, has a worker call the submission, and looks at the outcome.

The order of judgement is fixed and the first failure is reported: the call's own error, accesses out of bounds,
modified inputs, shape, dtype, device, work left to PyTorch, finiteness, values.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Self

import torch
from torch import Tensor

from reference.exercise import DTYPES, Case, Exercise, Output

from . import fallback
from .arena import Laid, find_damage, logical_inputs, output_capacity, output_offsets, read_output
from .compare import Tolerance, compare
from .diagnosis.observation import Observation
from .expected import Expected, expected_outputs
from .failures import gone_verdict, raised_verdict
from .loading import open_worker
from .reply import CallReply, MalformedReplyError, parse_reply
from .runner import Worker, WorkerGone
from .submission import Sources
from .verdict import Status, Verdict
from .zygote import Zygote

# What is said of an access outside a tensor whose cause is not known.
OUTSIDE = "Check the mask and the strides of this access, and which sizes the kernel is given."
# What a GPU may get wrong once, by an accident of the machine or in a race.
UNSTEADY = frozenset({Status.WRONG_VALUES, Status.NOT_FINITE, Status.OUT_OF_BOUNDS, Status.MODIFIED_INPUT})
# A race that shows in one run of twenty is missed by this many repeats in a third of all cases.
REPEATS = 20
NEVER_AGAIN = "failed once, never again"  # what staff are told then


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
    optimised: bool = True  # compiled kernels, by the assembler


class Caller:
    """Sends requests about one target to a worker, which is forked when needed. Use as a context manager."""

    def __init__(self, zygote: Zygote, target: Target, worker: Worker | None = None) -> None:
        """With `worker`, that one is used first: its file is imported."""
        self.target = target
        self.staff: dict[str, Any] = {}  # suspicious facts, the worst of all calls
        self._zygote = zygote
        self._worker = worker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop_worker()

    def worker(self) -> Worker | Verdict:
        """A worker with the submission's file imported, or the verdict on why there is none."""
        if self._worker is not None:
            return self._worker
        target = self.target
        worker = open_worker(self._zygote, target.sources, target.file, target.entry, target.case_timeout_s,
                             private_cache=target.private_cache, optimised=target.optimised)  # fmt: skip
        if isinstance(worker, Worker):
            self._worker = worker
        return worker

    def release(self) -> Worker | None:
        """The worker, alive, where there is one. Whoever asks has to close it."""
        worker, self._worker = self._worker, None
        if worker is not None and self.target.sources is not None and not self.target.private_cache:
            self._note("files", worker.files_besides(self.target.sources.files))
        return worker

    def drop_worker(self) -> None:
        """End the worker; the next request gets a fresh one."""
        if (worker := self.release()) is not None:
            worker.close()

    def _lose_worker(self) -> None:
        """End a worker that failed, and make sure that the GPU is well for the next."""
        self.drop_worker()
        if self.target.device == "cuda":
            from .gpu import check_health

            check_health()

    def _note(self, name: str, value: Any) -> None:
        """Keep a suspicious fact where it is the first or larger than the one before."""
        if value and (name not in self.staff or value > self.staff[name]):
            self.staff[name] = value

    def judge(self, case: Case, tolerance: Tolerance, *, silenced: bool = False) -> Verdict:
        """The verdict on one case. What may be an accident must happen twice, or nobody could show it to the student:
        a crash, as a worker may be killed from outside, and on a GPU a wrong result, which is looked for REPEATS times.

        With `silenced`, launches do nothing, and who does the work is not judged.
        """
        verdict = self.observe(case, tolerance, silenced=silenced).verdict
        if verdict.status is Status.CRASHED:
            return self.observe(case, tolerance, silenced=silenced).verdict
        if self.target.device == "cuda" and verdict.status in UNSTEADY:
            for _ in range(REPEATS):
                again = self.observe(case, tolerance, silenced=silenced).verdict
                if not again.passed:
                    return verdict
            self._note(NEVER_AGAIN, verdict.message)
            return again
        return verdict

    def observe(self, case: Case, tolerance: Tolerance, *, silenced: bool = False) -> Observation:
        """One call of the submission on a case, with all that is known of it."""
        target = self.target
        files = target.sources.files if target.sources is not None else {}
        nothing = Observation(target.exercise, case, (), (), (), Verdict(Status.PASSED), files)
        worker = self.worker()
        if isinstance(worker, Verdict):
            return replace(nothing, verdict=worker)
        outputs = target.exercise.gradients(case) or target.exercise.outputs(case)
        sizes = [_bytes(output) for output in outputs]
        laid = worker.arena.lay(case, output_capacity(sizes))
        worker.post(_call_message(target, case, laid, sizes, silenced=silenced))
        inputs = logical_inputs(case)  # while the worker is at it
        expected = expected_outputs(target.exercise, case, inputs, tolerance)
        reply = worker.wait(target.case_timeout_s)
        if isinstance(reply, WorkerGone):
            verdict = gone_verdict(reply, worker, target.case_timeout_s)
            self._lose_worker()
            return replace(nothing, verdict=_of_case(verdict, case))
        seen = worker.arena.read(laid)
        try:
            parsed = parse_reply(reply)
        except MalformedReplyError as error:
            verdict = Verdict(Status.CRASHED, f"the worker's reply could not be read: {error}")
            return replace(nothing, verdict=_of_case(verdict, case))
        self._note("threads", parsed.threads - 1)
        self._note("processes", parsed.processes)
        values = _outputs(parsed, laid, seen, expected, target.device)
        observed = replace(nothing, inputs=inputs, expected=expected, outputs=values)
        verdict = _judge_reply(observed, parsed, laid, seen, target.device, silenced=silenced)
        if verdict.evidence.get("device_lost"):
            self._lose_worker()  # an illegal access ends a process's use of the GPU for good
        return replace(observed, verdict=_of_case(verdict, case))


def _call_message(target: Target, case: Case, laid: Laid, sizes: Sequence[int], *, silenced: bool) -> dict[str, Any]:
    placed = [each.to_message() for each in laid.inputs]
    offsets = output_offsets(laid, sizes)
    return {
        "kind": "call",
        **call_arguments(target.exercise, case, placed),
        "outputs": [{"offset": offset, "bytes": size} for offset, size in zip(offsets, sizes, strict=True)],
        # Autotuned kernels run one configuration a case: the seed picks it, so that a case can be repeated exactly.
        "interpreter": {"config_index": case.seed, "tf32": target.tf32, "silenced": silenced},
    }


def call_arguments(exercise: Exercise, case: Case, tensors: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The part of a message that says what to call with, by position, and what to differentiate.

    Each argument is a tensor or a value; `tensors` describe those of the case, in its order.
    """
    bound = exercise.bind(case, tensors)
    arguments = [{"tensor": each} if isinstance(each, dict) else {"value": each} for each in bound]
    upstream = list(tensors[len(tensors) - len(exercise.upstream(case)) :]) if exercise.upstream(case) else []
    names = {f"d{name}": position for position, name in enumerate(exercise.arguments)}
    return {
        "arguments": arguments,
        "upstream": upstream,
        "differentiate": [names[gradient.name] for gradient in exercise.gradients(case)],
    }


def _bytes(output: Output) -> int:
    return prod(output.shape) * DTYPES[output.dtype].itemsize


def _of_case(verdict: Verdict, case: Case) -> Verdict:
    """The verdict with the case that showed it, where a case is to blame."""
    if verdict.status in (Status.PASSED, Status.NOT_IMPLEMENTED, Status.NOT_MEASURED):
        return verdict
    return replace(verdict, message=f"{verdict.message} — {case.describe()}", case=str(case))


def _outputs(reply: CallReply, laid: Laid, seen: bytes, expected: Sequence[Expected], device: str) -> list[Tensor]:
    """The values that the call left, where their form is right."""
    if reply.error is not None or _judge_form([each.output for each in expected], reply, device) is not None:
        return []
    written = read_output(laid, seen, [_bytes(each.output) for each in expected])
    return [
        torch.frombuffer(bytearray(data), dtype=DTYPES[each.output.dtype]).reshape(each.output.shape)
        for each, data in zip(expected, written, strict=True)
    ]


def _judge_reply(observed: Observation, reply: CallReply, laid: Laid, seen: bytes, device: str, *,
                 silenced: bool) -> Verdict:  # fmt: skip
    case, expected = observed.case, observed.expected
    evidence = reply.evidence()
    if reply.unsupported is not None:
        return Verdict(
            Status.NOT_MEASURED,
            f"Triton's interpreter can't run {reply.unsupported}; run this exercise on a GPU",
            evidence=evidence,
        )
    if reply.faults:
        return Verdict(Status.OUT_OF_BOUNDS, reply.faults[0], OUTSIDE, evidence={**evidence, "fault": reply.faults[0]})
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
            OUTSIDE,
            evidence=evidence,
        )
    verdict = _judge_form([each.output for each in expected], reply, device)
    if verdict is not None:
        return replace(verdict, evidence={**evidence, **verdict.evidence})
    backward = bool(observed.exercise.gradients(case))
    if not silenced and (work := fallback.work_left_to_torch(case, reply, backward=backward)) is not None:
        return Verdict(Status.FALLBACK, work, fallback.HINT, evidence=evidence)
    for each, values in zip(expected, observed.outputs, strict=True):
        verdict = _judge_values(observed, values, each, evidence)
        if not verdict.passed:
            return verdict
    if not silenced and (work := fallback.work_of_no_kernel(case, reply)) is not None:
        return Verdict(Status.FALLBACK, work, fallback.HINT, evidence=evidence)
    return Verdict(Status.PASSED, evidence=evidence)


def _judge_form(wanted: Sequence[Output], reply: CallReply, device: str) -> Verdict | None:
    """Number, type, shape, dtype and device of the outputs."""
    seen = [output.type for output in reply.outputs]
    if len(seen) != len(wanted):
        names = f"{len(wanted)} tensors ({', '.join(output.name for output in wanted)})"
        return Verdict(Status.WRONG_SHAPE, f"returned {', '.join(seen) or 'nothing'}, expected "
                       f"{names if len(wanted) > 1 else 'one torch.Tensor'}",
                       "Return all results as one tuple." if len(wanted) > 1 else "")  # fmt: skip
    for output, expected in zip(reply.outputs, wanted, strict=True):
        name = expected.name
        if output.type != "Tensor":
            return _no_tensor(expected, output.type, len(wanted))
        if output.shape != list(expected.shape):
            return Verdict(Status.WRONG_SHAPE, f"{name}.shape = {output.shape}, expected {list(expected.shape)}",
                           evidence={"seen_shape": output.shape, "wanted_shape": list(expected.shape)})  # fmt: skip
        if output.dtype != expected.dtype:
            return Verdict(Status.WRONG_DTYPE, f"{name}.dtype = {output.dtype}, expected {expected.dtype}",
                           "The result has the dtype of the input: allocate it with dtype=x.dtype."
                           if name == "out" else "")  # fmt: skip
        if output.device != device:
            return Verdict(Status.WRONG_SHAPE, f"{name}.device = {output.device}, expected {device}",
                           "Allocate the result with device=x.device.")  # fmt: skip
    return None


def _no_tensor(expected: Output, kind: str, outputs: int) -> Verdict:
    if expected.name.startswith("d"):
        return Verdict(Status.WRONG_SHAPE, f"the result has no gradient: {expected.name} is {kind}, expected a tensor "
                       f"of shape {list(expected.shape)}",
                       "`backward` returns a gradient for each argument of `forward`, in their order.")  # fmt: skip
    if outputs > 1:
        return Verdict(Status.WRONG_SHAPE, f"{expected.name} is {kind}, expected a torch.Tensor")
    return Verdict(Status.WRONG_SHAPE, f"returned {kind}, expected one torch.Tensor",
                   "Return the result tensor." if kind == "NoneType" else "")  # fmt: skip


def _judge_values(observed: Observation, output: Tensor, expected: Expected, evidence: dict[str, Any]) -> Verdict:
    exercise, case, inputs = observed.exercise, observed.case, observed.inputs
    mismatch = compare(output, expected.values, expected.allowed)
    if mismatch is None:
        return Verdict(Status.PASSED, evidence=evidence)
    where = ", ".join(map(str, mismatch.index))
    at = ""
    elementwise = exercise.reduction_length(exercise.shapes(case), **exercise.options_of(case)) == 1
    # A product of K = 1 sums nothing either, but its elements are no input's.
    if elementwise and not exercise.gradients(case) and inputs[0].shape == output.shape:
        at = f" at {exercise.arguments[0]}[{where}] = {float(inputs[0][mismatch.index]):.6g}"
    message = (
        f"{expected.output.name}[{where}] = {mismatch.seen:.6g}{at}, expected {mismatch.expected:.6g} "
        f"(allowed {mismatch.allowed:.2g}); {mismatch.wrong} of {mismatch.total} elements are wrong"
    )
    status = Status.WRONG_VALUES if mismatch.finite else Status.NOT_FINITE
    facts = {**evidence, "first_wrong": {"output": expected.output.name, "index": list(mismatch.index),
                                         "seen": repr(mismatch.seen), "expected": mismatch.expected,
                                         "allowed": mismatch.allowed},
             "wrong": mismatch.wrong, "total": mismatch.total,
             "output_crc32": zlib.crc32(output.contiguous().view(torch.uint8).numpy().tobytes())}  # fmt: skip
    return Verdict(status, message, evidence=facts)
