"""docs/pitfalls.md: every pitfall has a section, and its example shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reference
from grader.diagnosis.pitfalls import ADVICE, PAGE, Hint, explained, pitfall_of
from grader.grading import Grading
from grader.machine import Machine
from grader.submission import Submission
from reference.exercise import Exercise
from tests.corpus import ROOT, rubric_for

TEXT = (ROOT / PAGE).read_text()
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
CHECKS = ("aligned", "ragged", "strided", "extreme")


def example(name: str, marked: str) -> str:
    """The example of a section with one of its two variants: the lines marked `marked`, not the others."""
    code = re.search(r"```python\n(.*?)```", SECTIONS[name], re.DOTALL)[1]
    other = {"✗": "✓", "✓": "✗"}[marked]
    assert marked in code
    lines = [line for line in code.splitlines() if not line.endswith(f"# {other}")]
    return "import torch\nimport triton\nimport triton.language as tl\n\n\n" + "\n".join(lines) + "\n"


def verdicts(folder: Path, source: str, machine: Machine, dtype: str) -> list:
    exercise = re.findall(r"^def (\w+)\(", source, re.MULTILINE)[-1]
    (folder / f"{exercise}.py").write_text(source)
    rubric = rubric_for(exercise, f"{exercise}.py", generated=0, shrink_s=0.01)
    grading = Grading(rubric, Submission(folder), machine)
    found = [grading.grade(i).verdict for i in grading.items if i.check in CHECKS and i.dtype == dtype]
    grading.close()
    return found


def test_every_pitfall_has_a_section_and_every_anchor_is_of_a_mistake():
    mistakes = [
        pitfall_of(name)
        for exercise in map(reference.find, reference.exercise_ids())
        if isinstance(exercise, Exercise)
        for name in [*exercise.mistakes, *(exercise.gradient.mistakes if exercise.gradient else ())]
    ]
    anchors = re.findall(r'<a id="(\w+)"></a>', TEXT)
    assert len(anchors) == len(set(anchors)) >= 25
    assert set(anchors) <= set(mistakes) - set(ADVICE)
    assert set(ADVICE) <= set(SECTIONS)


def test_a_mistake_without_a_section_is_hinted_at_without_a_link():
    """The mistakes of a new exercise need no place in the page: what they say is in the hint."""
    assert explained("low_precision")
    assert explained("erf_form")
    assert not explained("of_a_new_exercise")
    assert str(Hint("", "The values equal something.")) == "The values equal something."
    assert str(Hint("erf_form", "The values.")) == f"The values. ({PAGE}#erf_form)"


@pytest.mark.parametrize("name", ADVICE)
def test_the_wrong_example_gets_its_hint_and_the_right_one_passes(name, tmp_path, machine):
    dtype = "float16" if name == "low_precision" else "float32"
    wrong = verdicts(tmp_path, example(name, "✗"), machine, dtype)
    assert {verdict.pitfall for verdict in wrong if not verdict.passed} == {name}, wrong
    assert all(f"{PAGE}#{name}" in verdict.hint for verdict in wrong if not verdict.passed)
    right = verdicts(tmp_path, example(name, "✓"), machine, dtype)
    assert [verdict.message for verdict in right if not verdict.passed] == []
    assert [verdict.hint for verdict in right] == [""] * 4
