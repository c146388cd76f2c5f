"""docs/interpreter.md says what the cases prove."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("interpreter_features", Path(__file__).parent / "features.py")
features = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(features)


def test_document_is_made_from_the_cases():
    assert features.DOCUMENT.read_text() == features.document()


def test_both_kinds_of_feature_are_listed():
    assert {status for _, status, _, _ in features.marked()} == {"right", "not measurable"}


def test_no_feature_is_listed_twice():
    names = [name for name, _, _, _ in features.marked()]
    assert len(names) == len(set(names))
