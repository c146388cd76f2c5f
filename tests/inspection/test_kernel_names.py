"""What kernel names say. Those in kernel_names.txt are as profiles of PyTorch 2 show them, and the lecture's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.kernel_names import parse_name

LINES = (Path(__file__).parent / "kernel_names.txt").read_text().splitlines()
NAMES = {name: says.strip(" -") for name, says in zip(LINES[::2], LINES[1::2], strict=True)}


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:40])
def test_a_name_says(name):
    assert str(parse_name(name)) == NAMES[name]


def test_an_unknown_name_is_shortened():
    assert parse_name("void some::thing<int, (anonymous namespace)::X>(float*)").short == "some::thing"


@given(st.text(max_size=200), st.sampled_from(["", "nvjet_", "cutlass_80_tensorop_", "void at::native::", "ampere_"]))
def test_any_name_is_read_without_an_error(text, start):
    assert parse_name(start + text).short or not (start + text).strip("<(")
