"""Set-up and helpers of the interpreter cases; they run in a child process, see ../test_interpreter.py."""

from __future__ import annotations

from pathlib import Path

import interp_modes
import torch
import triton
import triton.language as tl

from grader.worker import interpreter
from grader.worker.interpreter import Options, Record, record

interpreter.install()
interp_modes.install()  # every launch of every case runs both ways

DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
}


def feature(name, status="right"):
    """Mark a case as the proof of a line of docs/interpreter.md, which is made from the source."""
    assert name
    assert status in ("right", "not measurable")
    return lambda function: function


def run(kernel, grid, *args, options=None, **kwargs) -> Record:
    """Launch and return the record; a fault or warning that a case doesn't ask for fails it."""
    with record(options or Options()) as result:
        kernel[grid](*args, **kwargs)
    return result


def clean(kernel, grid, *args, **kwargs) -> Record:
    result = run(kernel, grid, *args, **kwargs)
    assert not result.faults, [fault.message for fault in result.faults]
    assert not result.warnings
    assert result.unsupported is None
    return result


def bits(tensor):
    """The tensor's memory, so that NaN payloads and signed zeros count."""
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(integers[tensor.element_size()])


def same(actual, expected):
    """Equal bit for bit, any NaN equal to any other."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.dtype.is_floating_point:
        a, e = actual.double(), expected.double()
        nan = torch.isnan(e)
        assert torch.equal(torch.isnan(a), nan)
        assert torch.equal(a[~nan], e[~nan])
    else:
        assert torch.equal(actual, expected)


def line_of(text, file):
    """The number of the only line of `file` that contains `text`."""
    with Path(file).open() as source:
        numbers = [n for n, line in enumerate(source, 1) if text in line and "line_of" not in line]
    assert len(numbers) == 1, (text, numbers)
    return numbers[0]


__all__ = ["DTYPES", "Options", "bits", "clean", "feature", "line_of", "record", "run", "same", "tl", "torch", "triton"]
