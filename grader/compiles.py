"""Trusted side: the check `compiles`: whether a GPU's compiler takes the kernels as the exercise launches them.

The interpreter lets much pass that the compiler rejects, so a student without a GPU would learn of it too late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reference.exercise import Case

from .errors import InfrastructureError
from .failures import TILES_TOO_LARGE, TOO_MUCH_SHARED
from .judge import Caller, call_arguments
from .reply import CompiledKernel, CompileReply, MalformedReplyError, parse_compile_reply
from .runner import WorkerGone
from .search import Outcome
from .verdict import Status, Verdict

# A block of 2²⁰ elements keeps the compiler busy for minutes.
TIMEOUT_S = 60.0
# The worker's words for a compilation that was broken off.
TOO_LONG = "had not finished"
STRICTER = "The CPU interpreter is more lenient than the compiler: this kernel would fail on every GPU of that kind."


def judge_compiles(caller: Caller, cases: Sequence[Case], targets: Sequence[int]) -> Outcome:
    """Compile what each case launches, for each compute capability, and report the first that is refused."""
    facts: list[dict[str, object]] = []
    for number, case in enumerate(cases, 1):
        verdict = _judge_case(caller, case, targets, facts)
        if not verdict.passed:
            return Outcome(verdict, number, cut_short=False)
    return Outcome(Verdict(Status.PASSED, evidence={"kernels": facts}), len(cases), cut_short=False)


def request_compilation(
    caller: Caller, case: Case, targets: Sequence[int], gpu: Mapping[str, object] | None = None
) -> CompileReply | Verdict:
    """What the compiler makes of the call's kernels, or the verdict on why that can't be told.

    With `gpu` (name, multiprocessors, max_configs) the call sees that GPU, its tensors have no memory, and the reply
    has details of each kernel.
    """
    worker = caller.worker()
    if isinstance(worker, Verdict):
        return worker
    tensors = [
        {"dtype": case.dtype, "shape": list(spec.shape), "strides": list(spec.geometry().strides)}
        for spec in case.tensors
    ]
    message = {"kind": "compile", **call_arguments(caller.target.exercise, case, tensors),
               "targets": list(targets), "timeout_s": TIMEOUT_S, "gpu": gpu}  # fmt: skip
    answer = worker.request(message, TIMEOUT_S + caller.target.case_timeout_s)
    if isinstance(answer, WorkerGone):
        caller.drop_worker()
        if answer.timed_out:
            return Verdict(Status.TIMED_OUT, f"compiling {TOO_LONG} after {TIMEOUT_S:g} s", case=str(case))
        return Verdict(Status.CRASHED, "compiling ended the process", case=str(case))
    try:
        reply = parse_compile_reply(answer)
    except MalformedReplyError as error:
        return Verdict(Status.CRASHED, f"the worker's reply could not be read: {error}")
    if reply.kind == "unavailable":
        raise InfrastructureError(f"Triton's compiler could not run: {reply.message}")
    if reply.kind == "call_failed":
        return _call_failed(reply, case)
    if not reply.kernels:
        return Verdict(Status.FALLBACK, "no Triton kernel was launched",
                       "Write the work as a kernel with @triton.jit and launch it.", case=str(case))  # fmt: skip
    return reply


def _judge_case(caller: Caller, case: Case, targets: Sequence[int], facts: list[dict[str, object]]) -> Verdict:
    reply = request_compilation(caller, case, targets)
    if isinstance(reply, Verdict):
        return reply
    facts.extend(
        kernel.model_dump(include={"kernel", "target", "config", "registers", "spills", "shared_bytes", "num_warps"})
        for kernel in reply.kernels
    )
    refused = [kernel for kernel in reply.kernels if not kernel.ok]
    if not refused:
        return Verdict(Status.PASSED)
    return _refused(refused, case)


def _call_failed(reply: CompileReply, case: Case) -> Verdict:
    where = f"{reply.file}:{reply.line}: " if reply.file else ""
    if reply.message.startswith("NotImplementedError"):
        return Verdict(Status.NOT_IMPLEMENTED, reply.message.partition(": ")[2])
    status = Status.RAISED
    if "ended the process" in reply.message or "crashed" in reply.message:
        status = Status.CRASHED
    elif TOO_LONG in reply.message:
        status = Status.TIMED_OUT
    return Verdict(status, f"{where}{reply.message} — {case.describe()}", case=str(case))


def _refused(refused: Sequence[CompiledKernel], case: Case) -> Verdict:
    first = refused[0]
    where = f"{first.file}:{first.line}: " if first.file else ""
    config = f" with {first.config}" if first.config else ""
    evidence = {"refused": [kernel.model_dump() for kernel in refused[:8]]}
    if TOO_LONG in first.error:
        message = f"{where}{first.kernel}{config}: {first.error}; {case.describe()}"
        hint = "Compile time grows with the size of a block. Load long rows in several blocks instead of one."
        return Verdict(Status.TIMED_OUT, message, hint, str(case), evidence)
    step = "could not be launched" if first.stage == "launch" else "does not compile"
    also = sorted({f"sm_{kernel.target}" for kernel in refused[1:]} - {f"sm_{first.target}"})
    message = (
        f"{where}{first.error} — {first.kernel}{config} {step} for sm_{first.target}"
        + (f" (nor for {', '.join(also)})" if also else "")
        + f"; {case.describe()}"
    )
    hint = TILES_TOO_LARGE if TOO_MUCH_SHARED in first.error else STRICTER
    return Verdict(Status.COMPILE_FAILED, message, hint, str(case), evidence)
