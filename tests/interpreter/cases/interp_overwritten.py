"""What counts as storing something else where another program has stored."""

from __future__ import annotations

import interp_support  # noqa: F401 - installs the interpreter
import numpy as np
import pytest

from grader.worker.interpreter import formats

ONE_ULP = {"float32": np.float32(1.1920929e-07), "float16": np.float16(0.000977)}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_roundings_are_no_difference_and_other_values_are(dtype):
    values = np.array([1.0, -2.0, 0.5, np.nan, np.inf], dtype)
    rounded = values + np.array([1, 0, 0, 0, 0], dtype) * ONE_ULP[dtype]
    assert not np.array_equal(values[:1], rounded[:1])
    assert not formats.differ(values, rounded)
    assert formats.differ(values, values * np.array([1, 1, 1.1, 1, 1], dtype))
    assert formats.differ(values, np.array([1, -2, 0.5, 0, np.inf], dtype))
    assert not formats.differ(values[:0], values[:0])


def test_bfloat16_is_compared_by_its_values():
    one, after_one, two = (np.array([bits], np.uint16) for bits in (0x3F80, 0x3F81, 0x4000))
    assert not formats.differ(one, after_one)
    assert formats.differ(one, two)


def test_integers_are_compared_exactly():
    assert formats.differ(np.array([7], np.int64), np.array([8], np.int64))
    assert not formats.differ(np.array([7], np.int64), np.array([7], np.int64))
