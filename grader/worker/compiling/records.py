"""What a compilation reports, and how the rows a compiling child sends become the records the worker hands on.

Untrusted side: everything here was said by a process that ran the submission.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel, compiled for one target in one autotune configuration.

    `ok` is false where the kernel could not be launched on the target. `stage` is where it stopped: "compile",
    "launch" (compiles, but the launch would fail) or "ok". A configuration that Triton's autotuner would pass over
    while another one works is `ok` all the same, keeps its `stage`, and `note` says why it is passed over.
    """

    kernel: str
    target: int  # compute capability: 80, 90, …
    config: str | None
    ok: bool
    stage: str
    error: str  # "" when ok
    file: str  # name without its folder
    line: int | None
    shared_bytes: int
    num_warps: int
    grid: list[int]
    registers: int | None  # per thread
    spills: int | None  # 32-bit words per thread that are stored to local memory for want of registers
    stack_bytes: int | None  # per thread
    note: str = ""
    details: dict[str, Any] | None = None  # as `details.of` gives them, where a GPU was pretended


class CallFailed(Exception):  # noqa: N818 - reads as what happened to the call
    """The submission's host code broke off before any kernel was compiled.

    `file` and `line` are the submission's own, or "" and None where no frame of it was running.
    """

    def __init__(self, message: str, file: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line


class CompilerUnavailable(Exception):  # noqa: N818 - an infrastructure fault, named by its meaning
    """The machine, not the submission, kept the compiler from running (no ptxas, a cache that can't be written)."""


@dataclass
class Child:
    """What a compiling child said before it ended, in order of arrival."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    raised: dict[str, Any] | None = None  # the first exception of the submission's host code
    unavailable: str | None = None
    pending: dict[str, Any] | None = None  # a compilation that was begun and not finished
    done: bool = False  # it came to its end

    def take(self, message: dict[str, Any]) -> None:
        """Files one message under what it says."""
        match message.pop("kind"):
            case "begin":
                self.pending = message
            case "kernel":
                self.pending = None
                self.rows.append(message)
            case "end":
                self.pending = None
            case "raised":
                self.raised = self.raised or message
            case "done":
                self.done = True
            case "unavailable":
                self.unavailable = message["message"]


def records(rows: Iterable[dict[str, Any]]) -> list[CompiledKernel]:
    """Turns rows into records; within one tuned launch, forgives configurations that the autotuner would skip."""
    rows = list(rows)
    works: dict[tuple[int, int], bool] = defaultdict(bool)
    for row in rows:
        works[row["target"], row["tuning"]] |= row["ok"]
    result = []
    names = {each.name for each in dataclasses.fields(CompiledKernel)}
    for row in rows:
        kernel = CompiledKernel(**{name: value for name, value in row.items() if name in names})
        if row["skippable"] and row["tuning"] and works[row["target"], row["tuning"]]:
            kernel = dataclasses.replace(kernel, ok=True, error="", note=f"skipped by the autotuner: {kernel.error}")
        result.append(kernel)
    return result
