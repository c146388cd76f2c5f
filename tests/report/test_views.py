"""What students see and what only staff do, in every format."""

from __future__ import annotations

import json

import pytest

from grader.errors import RubricError
from grader.report import gradescope
from grader.rubric import load_rubric

from . import samples
from .test_formats import FORMATS

SECRETS = (str(samples.HIDDEN_SEED), samples.NEIGHBOUR, "/srv/staff", "Traceback")


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_of_staff_is_in_a_students_file(name, tmp_path):
    text = FORMATS[name](samples.view(samples.every_kind(samples.HIDDEN_SEED), folder=tmp_path, published=True))
    assert [secret for secret in SECRETS if secret in text] == []


def test_nothing_of_staff_is_even_in_a_students_view():
    view = samples.view(samples.every_kind(samples.HIDDEN_SEED), published=True)
    assert [secret for secret in SECRETS if secret in repr(view)] == []
    assert any(entry.item.evidence.get("kernels") for entry in view.entries)


def test_staff_see_it(tmp_path):
    text = FORMATS["student.html"](samples.view(samples.every_kind(samples.HIDDEN_SEED), staff=True, folder=tmp_path))
    assert [secret for secret in SECRETS if secret not in text] == []


def test_the_rubrics_own_seed_is_no_secret():
    assert ("seed", "7") in samples.view(samples.every_kind(7)).environment
    assert "seed" not in dict(samples.view(samples.every_kind(8)).environment)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rule", ["generic", "after_due_date", "after_published", "hidden"])
def test_a_check_that_is_not_visible_shows_no_details(name, rule, tmp_path):
    text = FORMATS[name](samples.view(samples.every_kind(), folder=tmp_path, visibility={"ragged": rule}))
    for detail in ("0.161133", "3x7", "Padded columns", "wrong-fill-value"):
        assert detail not in text
    # Only Gradescope, which hides it itself, is told that it exists.
    assert ("ragged" in text) == (rule != "hidden" or name == "gradescope.json")


def test_what_waited_is_shown_once_it_is_published():
    for rule, shown in (("after_published", True), ("after_due_date", True), ("generic", False), ("hidden", False)):
        view = samples.view(samples.every_kind(), published=True, visibility={"ragged": rule})
        assert ("0.161133" in FORMATS["markdown.md"](view)) == shown, rule


def test_hidden_points_can_not_be_told_from_the_totals():
    view = samples.view(samples.every_kind(), visibility={"aligned": "hidden"})
    assert view.totals.earned == pytest.approx(5.74)
    assert view.shown_totals.earned == pytest.approx(3.74)
    assert view.note == "2 more checks are graded and not shown here."
    assert "5.74" not in FORMATS["markdown.md"](view)


def test_gradescope_gets_the_rule_of_each_check():
    rules = {"ragged": "hidden", "extreme": "generic", "compiles": "after_published"}
    tests = json.loads(gradescope.render(samples.view(samples.every_kind(), published=True, visibility=rules)))["tests"]
    seen = {test["name"]: test["visibility"] for test in tests}
    assert seen["softmax ragged-float16"] == "hidden"
    assert seen["softmax extreme-float32"] == "visible"
    assert seen["softmax compiles-float32"] == "after_published"
    assert seen["softmax aligned-float32"] == "visible"


def test_a_visibility_rule_for_no_check_is_refused(tmp_path):
    path = tmp_path / "rubric.yaml"
    path.write_text("schema: grader.rubric/1\ntitle: T\nseed: 1\nweights: {ragged: 1}\nreport:\n  visibility:\n"
                    "    raged: hidden\nexercises: {softmax: {points: 1}}\n")  # fmt: skip
    with pytest.raises(RubricError, match=r"rubric\.yaml:7: no exercise of this rubric has a check 'raged'"):
        load_rubric(path)
