"""Trusted side: turns what a worker said into values of known types and bounded sizes, or refuses it."""

from __future__ import annotations

import base64
import zlib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError


def _whole(value: object) -> object:
    """JSON can say half a character, as the message of an exception may have one; no UTF-8 file can hold it."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


Text = Annotated[str, Field(max_length=4000), BeforeValidator(_whole)]
Short = Annotated[str, Field(max_length=200), BeforeValidator(_whole)]
MAX_PTX_BYTES = 8 << 20
Count = Annotated[int, Field(ge=0, le=2**62)]


class MalformedReplyError(Exception):
    """The worker's reply has not the form that worker code gives it."""


class _Fact(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class Frame(_Fact):
    """One line of the submission in a traceback."""

    file: Short
    line: int
    code: Short


class ErrorReply(_Fact):
    """An exception of the submission."""

    type: Short
    bases: list[Short] = Field(max_length=32)
    message: Text
    frames: list[Frame] = Field(max_length=12)

    @property
    def out_of_memory(self) -> bool:
        """Whether it says that memory ran out: Python's own error, or what torch raises for it."""
        return (
            "MemoryError" in self.bases or "OutOfMemoryError" in self.bases or "can't allocate memory" in self.message
        )

    def to_dict(self) -> dict[str, Any]:
        """For the evidence."""
        return self.model_dump()


class Output(_Fact):
    """What one returned value is; `stored` is the number of its elements that kernels stored to, where known."""

    type: Short
    shape: list[Count] = Field(default_factory=list, max_length=16)
    dtype: Short = ""
    device: Short = ""
    stored: Count | None = None


class Launch(_Fact):
    """One kernel launch."""

    kernel: Short
    grid: list[int] = Field(max_length=3)
    config: Text | None = None
    num_configs: Count = 1


class Operator(_Fact):
    """One PyTorch operator: how often it ran, the elements of its largest tensor, the bytes of all its tensors."""

    name: Short
    calls: Count
    elements: Count
    bytes_touched: Count


class Fault(_Fact):
    """One access outside a tensor, as the memory check put it."""

    message: Text


class Record(_Fact):
    """What the interpreter counted in one call."""

    launches: list[Launch] = Field(max_length=32)
    launch_count: Count
    bytes_loaded: Count
    bytes_stored: Count
    faults: list[Fault] = Field(max_length=32)
    warnings: list[Text] = Field(max_length=32)
    unsupported: Text | None
    inputs_loaded: bool | None = None  # whether a kernel read an input where it lies; None where nobody looked


class CallReply(_Fact):
    """The answer to a call: outputs or an error, and what was counted."""

    outputs: list[Output] = Field(default_factory=list, max_length=16)
    error: ErrorReply | None = None
    record: Record
    operators: list[Operator] = Field(max_length=32)
    allocated_bytes: Count
    largest_allocated: list[Count] = Field(max_length=16)
    threads: Count
    processes: Count = 0

    @property
    def faults(self) -> list[str]:
        """Messages of accesses out of bounds."""
        return [fault.message for fault in self.record.faults]

    @property
    def unsupported(self) -> str | None:
        """The feature that the interpreter can't run, if the call used one."""
        return self.record.unsupported

    def evidence(self) -> dict[str, Any]:
        """The facts worth keeping in the result."""
        record = self.record
        facts: dict[str, Any] = {
            "launches": [launch.model_dump() for launch in record.launches[:8]],
            "launch_count": record.launch_count,
            "bytes_loaded": record.bytes_loaded,
            "bytes_stored": record.bytes_stored,
            "operators": [operator.model_dump() for operator in self.operators[:8]],
            "allocated_bytes": self.allocated_bytes,
            "largest_allocated": self.largest_allocated,
        }
        if any(output.stored is not None for output in self.outputs):
            facts["stored_elements"] = [output.stored for output in self.outputs]
        if record.warnings:
            facts["warnings"] = record.warnings[:8]
        return facts


class KernelDetails(_Fact):
    """What a kernel consists of; grader/worker/compiling/details.py says what each field is."""

    ptx: Annotated[str, Field(max_length=1 << 18)]
    arguments: list[Literal["pointer"] | Annotated[int, Field(ge=-(2**63), lt=2**64)] | None] = Field(max_length=256)
    constants: dict[Short, bool | int | float | Short] = Field(max_length=64)
    dots: Count
    num_stages: Count | None
    tensor_memory_columns: Count

    def ptx_text(self) -> str:
        """The PTX, "" where there is none or it is no compressed text. Never longer than MAX_PTX_BYTES."""
        try:
            packed = base64.b64decode(self.ptx, validate=True)
            return zlib.decompressobj().decompress(packed, MAX_PTX_BYTES).decode(errors="replace")
        except (ValueError, zlib.error):
            return ""


class CompiledKernel(_Fact):
    """One kernel compiled for one compute capability; grader/worker/compiling/records.py says what each field is."""

    kernel: Short
    target: Count
    config: Text | None
    ok: bool
    stage: Short
    error: Text
    file: Short
    line: int | None
    shared_bytes: Count
    num_warps: Count
    grid: list[int] = Field(default_factory=list, max_length=3)
    registers: Count | None
    spills: Count | None
    stack_bytes: Count | None = None
    note: Text
    details: KernelDetails | None = None


class CompileReply(_Fact):
    """The answer to a compilation: the kernels, or why the call gave none."""

    kind: Short
    kernels: list[CompiledKernel] = Field(default_factory=list, max_length=128)
    message: Text = ""
    file: Short = ""
    line: int | None = None


class MeasuredReply(_Fact):
    """What a function that measures returned: a number, or rows of a name and two numbers, or neither."""

    type: Short
    number: float | None = None
    rows: list[tuple[Short, float, float] | None] | None = Field(default=None, max_length=64)


def parse_measured(message: dict[str, Any]) -> MeasuredReply:
    """The reply of a function that measures. Raises MalformedReplyError."""
    try:
        # Not strict: JSON has no tuples.
        return MeasuredReply.model_validate(message, strict=False)
    except ValidationError as error:
        raise MalformedReplyError(_first(error)) from None


def parse_compile_reply(message: dict[str, Any]) -> CompileReply:
    """A compilation's reply. Raises MalformedReplyError."""
    try:
        return CompileReply.model_validate(message)
    except ValidationError as error:
        raise MalformedReplyError(_first(error)) from None


def parse_reply(message: dict[str, Any]) -> CallReply:
    """A call's reply. Raises MalformedReplyError."""
    try:
        return CallReply.model_validate(message)
    except ValidationError as error:
        raise MalformedReplyError(_first(error)) from None


def parse_error(message: object) -> ErrorReply:
    """The error of a load. Raises MalformedReplyError."""
    try:
        return ErrorReply.model_validate(message)
    except ValidationError as error:
        raise MalformedReplyError(_first(error)) from None


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
