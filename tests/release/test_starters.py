"""Starters are what the solutions give."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.errors import ReleaseError
from grader.release.starters import cut, cuts
from grader.rubric import load_rubric
from tests.release.course import ROOT

STARTERS = cuts(ROOT, load_rubric(ROOT / "rubric.yaml").rubric)
SOLUTION = '''\
# solution: begin
"""How it works."""
#: """Exercise: double."""
# solution: end

import torch


# solution: begin
def helper(x):
    return 2 * x


# solution: end


def double(x):
    """Return 2·x."""
    # solution: begin
    return helper(x)
    # solution: end
'''


def cut_text(tmp_path: Path, text: str):
    path = tmp_path / "double.py"
    path.write_text(text)
    return cut(path, "student/double.py", ["double"])


@pytest.mark.parametrize("name", STARTERS)
def test_a_starter_is_what_its_solution_gives(name):
    assert (ROOT / name).read_text() == STARTERS[name].text, f"{name}: run make starters"


def test_every_starter_is_of_an_exercise():
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "student").iterdir() if path.suffix} == set(STARTERS)


def test_regions_go_and_what_they_give_instead_stays(tmp_path):
    found = cut_text(tmp_path, SOLUTION)
    assert (
        found.text
        == '''\
"""Exercise: double."""

import torch


def double(x):
    """Return 2·x."""
    # TODO: write kernels with @triton.jit above, launch them here, and return the result.
    raise NotImplementedError("double is not written yet: student/double.py")
'''
    )
    assert {line.strip() for line in found.solution} >= {'"""How it works."""', "return 2 * x", "return helper(x)"}
    assert not any("Exercise" in line for line in found.solution)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    # solution: end\n", "", r"double\.py:19: '# solution: begin' without"),
        ("# solution: end\n\nimport", "import", r"double\.py:7: '# solution: begin' in a region"),
        ("    # solution: begin\n", "", r"double\.py:20: '# solution: end' in a region, or without one"),
        ("def double", "def treble", "no function 'double'"),
        ("    # solution: begin\n    return helper(x)\n    # solution: end\n", "    return helper(x)\n", "is written"),
        ("# solution: begin\ndef helper", "def helper(:\n# solution: begin\ndef helper", "is no Python: line"),
    ],
)
def test_a_solution_that_can_not_be_cut_is_refused(tmp_path, old, new, says):
    assert old in SOLUTION
    with pytest.raises(ReleaseError, match=says):
        cut_text(tmp_path, SOLUTION.replace(old, new, 1))


def test_a_solution_without_regions_is_refused(tmp_path):
    with pytest.raises(ReleaseError, match="has no lines between"):
        cut_text(tmp_path, "def double(x):\n    return 2 * x\n")
