"""Trusted side: the verdicts on calls that gave no result: import failed, raised, crashed, timed out."""

from __future__ import annotations

import signal
from typing import Any

from .reply import ErrorReply, MalformedReplyError, parse_error
from .runner import Worker, WorkerGone
from .verdict import Status, Verdict

MAX_OUTPUT_QUOTED = 2000
# What CUDA calls it when a kernel leaves the memory it may touch.
ILLEGAL_ACCESS = ("illegal memory access", "misaligned address", "unspecified launch failure")
# What Triton says when the tiles of a launch need more shared memory than a block may have.
TOO_MUCH_SHARED = "out of resource: shared memory"
TILES_TOO_LARGE = (
    "The tiles of this launch need more shared memory than a block can have. Choose block sizes by the case, smaller "
    "ones where a tile's rows are long or its elements are float32; a lower num_stages keeps fewer tiles at a time."
)


def load_verdict(message: dict[str, Any], file: str, entry: str) -> Verdict:
    """The verdict on a file that could not be imported."""
    try:
        error = parse_error(message.get("error"))
    except MalformedReplyError as problem:
        return Verdict(Status.CRASHED, f"the worker's reply could not be read: {problem}")
    where = f"{error.frames[-1].file}:{error.frames[-1].line}: " if error.frames else f"{file}: "
    if error.type == "EntryError":
        return Verdict(Status.IMPORT_FAILED, f"{file}: {error.message}",
                       f"Name the function {entry!r}, as in the starter file.")  # fmt: skip
    if error.out_of_memory:
        return Verdict(Status.OUT_OF_MEMORY, f"{where}{error.type}: {error.message}")
    return Verdict(Status.IMPORT_FAILED, f"{where}{error.type}: {error.message}", _import_hint(error),
                   evidence={"error": error.to_dict()})  # fmt: skip


def _import_hint(error: ErrorReply) -> str:
    code = error.frames[-1].code.strip() if error.frames else ""
    if code.startswith(("!", "%")):
        return "Lines that start with ! or % belong to notebooks; take them out of the file."
    if "active drivers" in error.message:
        return "triton.runtime.driver wants a GPU, also where there is none. Take the device from the inputs: x.device."
    if "cuda" in f"{code} {error.message}".lower():
        return "The file uses CUDA while it is imported. Keep benchmarks under `if __name__ == '__main__':`."
    if error.type in ("ModuleNotFoundError", "ImportError"):
        return "Only torch, triton, numpy, the standard library and files beside this one can be imported."
    return "Importing the file must only define functions; run it by `python FILE` to see the error."


def raised_verdict(error: ErrorReply, evidence: dict[str, Any]) -> Verdict:
    """The verdict on an exception that the call raised."""
    where = f"{error.frames[-1].file}:{error.frames[-1].line}: " if error.frames else ""
    evidence = {**evidence, "error": error.to_dict()}
    if any(words in error.message for words in ILLEGAL_ACCESS):
        return Verdict(Status.OUT_OF_BOUNDS, f"{where}{error.message.splitlines()[0]}",
                       "A load or store went outside the memory of this process. Run it with --device cpu: the "
                       "interpreter names the line and the tensor.",
                       evidence={**evidence, "device_lost": True})  # fmt: skip
    if error.type == "GradientError":
        return Verdict(Status.RAISED, error.message,
                       "autograd can't see into a kernel: wrap the launches in a torch.autograd.Function with "
                       "`forward` and `backward`, and call it by `apply`.", evidence=evidence)  # fmt: skip
    code = error.frames[-1].code if error.frames else ""
    if "NotImplementedError" in error.bases and "NotImplementedError" in code:  # PyTorch raises it as well
        return Verdict(Status.NOT_IMPLEMENTED, error.message or "raises NotImplementedError", evidence=evidence)
    if error.out_of_memory:
        return Verdict(Status.OUT_OF_MEMORY, f"{where}{error.type}: {error.message}",
                       "The call asked for more memory than it may use.", evidence=evidence)  # fmt: skip
    if error.type == "AssertionError" and any(word in code for word in ("contiguous", "stride")):
        return Verdict(Status.RAISED, f"{where}refused this layout: {code.strip()}",
                       "Inputs may be transposed or sliced: use x.stride(), or make a contiguous copy.",
                       evidence=evidence)  # fmt: skip
    quoted = f" — in `{code.strip()}`" if code else ""
    hint = TILES_TOO_LARGE if TOO_MUCH_SHARED in error.message else ""
    return Verdict(Status.RAISED, f"{where}{error.type}: {error.message}{quoted}", hint, evidence=evidence)


def gone_verdict(gone: WorkerGone, worker: Worker, timeout_s: float) -> Verdict:
    """The verdict on a worker that ended without answering."""
    printed = worker.output.decode(errors="replace")[-MAX_OUTPUT_QUOTED:]
    evidence = {"printed": printed} if printed else {}
    if gone.timed_out:
        return Verdict(Status.TIMED_OUT, f"no result after {timeout_s:g} s",
                       "Look for a loop that does not end, or work that grows with the square of the size.",
                       evidence=evidence)  # fmt: skip
    if gone.malformed:
        return Verdict(Status.CRASHED, f"the worker's reply could not be read: {gone.malformed}", evidence=evidence)
    if gone.code is None:
        what = "the process closed its connection"
    elif gone.code < 0:
        what = f"the process was killed by {_signal_name(-gone.code)}"
    else:
        what = f"the process ended with exit code {gone.code}"
    return Verdict(Status.CRASHED, f"{what} before it returned a result", evidence=evidence)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
