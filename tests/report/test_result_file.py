"""`result.json`: its published schema, and files of every version there has been."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from grader.errors import ResultError
from grader.result import json_schema, load_result

from . import samples

ROOT = Path(__file__).parent.parent.parent
PUBLISHED = ROOT / "docs/schema/grader.result-1.json"
STORED = Path(__file__).parent / "files/result-1.json"  # as it was written before it had pitfalls and pictures


def test_the_published_schema_is_current():
    assert PUBLISHED.read_text(encoding="utf-8") == json_schema(), "run `make schema`"


def test_a_written_result_keeps_to_the_published_schema(tmp_path):
    schema = json.loads(PUBLISHED.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    path = tmp_path / "r.json"
    samples.every_kind().write(path)
    jsonschema.validate(json.loads(path.read_text()), schema)
    assert load_result(path) == samples.every_kind()
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(path.read_text()), "more": 1}, schema)


def test_an_earlier_file_of_version_1_is_read_and_keeps_to_the_schema():
    found = load_result(STORED)
    assert found.submission.id == "linus"
    item = found.exercises["matmul_relu"].items[0]
    assert (item.status, item.pitfall, item.pictures, item.staff) == ("fallback", "", [], {})
    jsonschema.validate(json.loads(STORED.read_text()), json.loads(PUBLISHED.read_text()))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ('{"schema": "grader.result/1", "x": NaN}', "is not JSON: it holds NaN"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "names no schema; this grader reads grader.result/1"),
        ("{}", "names no schema"),
        (
            '{"schema": "grader.result/2"}',
            r"has the schema 'grader.result/2'; this grader reads grader.result/1\. Give",
        ),
        ('{"schema": ["grader.result/1"]}', "has the schema"),
        ('{"schema": "grader.result/1"}', "is no grader.result/1: submission: Field required"),
    ],
)
def test_what_is_no_result_is_one_clear_error(tmp_path, text, problem):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(ResultError, match=problem) as caught:
        load_result(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(ResultError, match="can't be read"):
        load_result(tmp_path / "none.json")


def test_bytes_that_are_no_text_are_one_clear_error(tmp_path):
    path = Path(shutil.copy(STORED, tmp_path / "r.json"))
    path.write_bytes(path.read_bytes().replace(b"linus", b"lin\xff"))
    with pytest.raises(ResultError, match="is not JSON"):
        load_result(path)
