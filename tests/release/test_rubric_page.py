"""docs/rubric.md says what the models of the rubric say."""

from __future__ import annotations

import re

import pydantic

import grader.rubric
from grader.release.rubric_page import page
from grader.rubric import Rubric
from tests.release.course import ROOT

TEXT = (ROOT / "docs/rubric.md").read_text()


def models(model: type[pydantic.BaseModel]) -> list[type[pydantic.BaseModel]]:
    """Every model of a rubric."""
    return [each for each in vars(grader.rubric).values()
            if isinstance(each, type) and issubclass(each, model) and each.__module__ == model.__module__]  # fmt: skip


def test_the_page_is_made_from_the_models():
    assert page() == TEXT, "run make docs"


def test_every_key_of_every_model_has_a_meaning_and_is_on_the_page():
    keys = [field.alias or name for model in models(Rubric.__mro__[1]) for name, field in model.model_fields.items()]
    assert len(keys) > 55
    assert set(keys) == set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE))
    assert not re.search(r"\| *\|", TEXT)


def test_defaults_and_limits_are_shown():
    lines = TEXT.splitlines()
    assert "| `generated` | whole number ≥ 0, ≤ 10000 | `8` | cases drawn for each item |" in lines
    assert "| `seed` | whole number ≥ 0 | **must be given** |" in TEXT
    assert "## exercises.….speed[…].gpus.…" in lines
