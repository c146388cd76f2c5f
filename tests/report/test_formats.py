"""Each format against its golden file and, where there is one, a reader that is not ours.

`UPDATE_GOLDEN=1 pytest tests/report` writes the golden files anew; look at the difference before keeping it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
from junitparser import JUnitXml
from markdown_it import MarkdownIt

from grader.report import class_page, classroom50, github, gradescope, html, junit, markdown, prairielearn, table
from grader.report.view import View
from grader.result import Result

from . import samples

GOLDEN = Path(__file__).parent / "golden"
TOKEN = "0123456789abcdef"
RUNNER = {"CLASSROOM": "cs101", "ASSIGNMENT": "kernels", "SUBMISSION_TAG": "submit/1",
          "COMMIT_URL": "https://example.org/c", "RELEASE_URL": "https://example.org/r"}  # fmt: skip
FORMATS = {
    "gradescope.json": gradescope.render,
    "prairielearn.json": prairielearn.render,
    "classroom50.json": lambda view: classroom50.render(view, RUNNER),
    "github.log": lambda view: github.render(view, TOKEN).log,
    "github.md": lambda view: github.render(view, TOKEN).summary,
    "junit.xml": junit.render,
    "markdown.md": markdown.render,
    "table.csv": lambda view: table.render([view]),
    "student.html": html.render,
}


def compare_with_golden(name: str, text: str) -> None:
    # The style and the scripts have files of their own.
    text = re.sub(r"(<(style|script)>).*?(</\2>)|(sha256-)[^&]*", r"\1\3\4", text, flags=re.DOTALL)
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name} differs; UPDATE_GOLDEN=1 writes it anew"


@pytest.fixture
def pictured(tmp_path: Path) -> View:
    """The view of a student, with the picture where the result's file would be."""
    (tmp_path / samples.PICTURE).write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 2"/>')
    return samples.view(samples.every_kind(), folder=tmp_path, leaderboard=True, docs="https://example.org/docs/")


@pytest.mark.parametrize("name", FORMATS)
def test_a_students_file_is_as_golden(name, pictured):
    compare_with_golden(name, FORMATS[name](pictured))


def test_a_staff_page_and_a_class_page_are_as_golden(tmp_path):
    compare_with_golden("staff.html", html.render(samples.view(samples.every_kind(), staff=True, folder=tmp_path)))
    compare_with_golden("class.html", class_page.render("Triton kernels", samples.a_class(8)))


# --- readers and rules that are not ours -----------------------------------------------------------------------------

VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
TEXT_FORMAT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
# By the documentation of each platform.
DOCUMENTED = {
    "gradescope.json": {
        "type": "object", "additionalProperties": False, "required": ["tests"],
        "properties": {
            "score": {"type": "number"}, "execution_time": {"type": "number"}, "output": {"type": "string"},
            "output_format": TEXT_FORMAT, "test_output_format": TEXT_FORMAT, "test_name_format": TEXT_FORMAT,
            "visibility": VISIBILITY, "stdout_visibility": VISIBILITY, "extra_data": {"type": "object"},
            "tests": {"type": "array", "items": {
                "type": "object", "additionalProperties": False, "properties": {
                    "score": {"type": "number"}, "max_score": {"type": "number"}, "name": {"type": "string"},
                    "status": {"enum": ["passed", "failed"]}, "output": {"type": "string"}, "visibility": VISIBILITY,
                    "tags": {"type": "array", "items": {"type": "string"}}}}},
            "leaderboard": {"type": "array", "items": {
                "type": "object", "additionalProperties": False, "required": ["name", "value"], "properties": {
                    "name": {"type": "string"}, "value": {"type": ["number", "string"]},
                    "order": {"enum": ["asc", "desc"]}}}},
        }},
    "prairielearn.json": {
        "type": "object", "additionalProperties": False, "required": ["gradable", "score"],
        "properties": {
            "gradable": {"type": "boolean"}, "score": {"type": "number", "minimum": 0, "maximum": 1},
            "message": {"type": "string"}, "output": {"type": "string"},
            "tests": {"type": "array", "items": {
                "type": "object", "additionalProperties": False, "required": ["name", "points", "max_points"],
                "properties": {"name": {"type": "string"}, "points": {"type": "number"},
                               "max_points": {"type": "number"}, "message": {"type": "string"},
                               "output": {"type": "string"}}}},
        }},
    "classroom50.json": {
        "type": "object",
        "required": ["schema", "classroom", "assignment", "submission", "commit", "release", "review", "datetime",
                     "score", "max-score", "tests"],
        "properties": {
            "schema": {"const": "classroom50/result/v1"}, "score": {"type": "integer"},
            "max-score": {"type": "integer"},
            "tests": {"type": "array", "items": {
                "type": "object", "required": ["test-name", "passed", "score", "max-score"],
                "properties": {"passed": {"type": "boolean"}, "score": {"type": "integer"},
                               "max-score": {"type": "integer"}}}},
        }},
}  # fmt: skip


def every_result() -> list[Result]:
    return [samples.every_kind(), samples.hostile(), samples.result("empty", {})]


@pytest.mark.parametrize("name", DOCUMENTED)
@pytest.mark.parametrize("staff", [False, True])
def test_json_formats_have_the_documented_form(name, staff):
    for found in every_result():
        document = json.loads(FORMATS[name](samples.view(found, staff=staff)))
        if document.get("gradable") is False:  # PrairieLearn's way to say that nothing was graded
            assert document["format_errors"]
            continue
        jsonschema.validate(document, DOCUMENTED[name])


def test_gradescope_scores_add_up_and_staffs_file_shows_students_nothing():
    view = samples.view(samples.every_kind())
    document = json.loads(gradescope.render(view))
    assert document["score"] == pytest.approx(sum(test["score"] for test in document["tests"]))
    assert document["execution_time"] == 90
    assert json.loads(gradescope.render(samples.view(samples.every_kind(), staff=True)))["visibility"] == "hidden"


def test_the_leaderboard_is_left_out_unless_the_rubric_asks_for_it():
    assert "leaderboard" not in json.loads(gradescope.render(samples.view(samples.every_kind())))
    hidden = samples.view(samples.every_kind(), leaderboard=True, visibility={"speed": "hidden"})
    assert json.loads(gradescope.render(hidden))["leaderboard"] == []


def test_junit_is_read_by_junitparser_with_points_as_properties():
    suites = JUnitXml.fromstring(junit.render(samples.view(samples.every_kind())).encode())
    softmax, gelu = suites
    assert (softmax.name, softmax.tests, softmax.failures, softmax.errors, softmax.skipped) == ("softmax", 6, 2, 0, 0)
    assert (gelu.tests, gelu.errors, gelu.skipped) == (2, 1, 1)
    points = {found.name: found.value for found in softmax.properties()}
    assert (points["points"], points["max_points"]) == ("5.74", "12")
    assert points["points[speed-8192x4096.float32]"] == "1.24"
    assert [case.name for case in softmax if case.result and case.result[0].type == "wrong_values"] == [
        "ragged-float16"
    ]


def test_github_marks_the_students_lines_and_not_more_than_it_shows():
    log = github.render(samples.view(samples.every_kind()), TOKEN).log.splitlines()
    assert log[0] == f"::stop-commands::{TOKEN}"
    commands = log[log.index(f"::{TOKEN}::") + 1 :]
    assert any(
        line.startswith("::error file=student/softmax.py,line=31,title=softmax extreme%3A raised::")
        for line in commands
    )
    items = [samples.item("ragged", "raised", message=f"softmax.py:{line}: ValueError: no") for line in range(1, 31)]
    commands = github.render(samples.view(samples.result("many", {"softmax": items})), TOKEN).log.splitlines()
    assert sum(line.startswith("::error") for line in commands) == github.MOST_ANNOTATIONS
    assert commands[-1] == "::notice title=grader::20 more failures are in the summary"


@pytest.mark.parametrize("name", ["github.md", "prairielearn.json"])
def test_files_with_a_limit_stay_within_it(name):
    message = "é" * 4000
    items = [samples.item("ragged", "wrong_values", dtype=f"d{i}", message=message) for i in range(400)]
    text = FORMATS[name](samples.view(samples.result("long", {"softmax": items})))
    most = {"github.md": 1 << 20, "prairielearn.json": 1_000_000}[name]
    assert 100_000 < len(text.encode()) <= most


# --- what a submission may bring --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("staff", [False, True])
def test_hostile_text_is_bounded_printable_utf8(name, staff):
    text = FORMATS[name](samples.view(samples.hostile(), staff=staff))
    assert len(text.encode("utf-8")) < 300_000
    assert all(character.isprintable() or character == "\n" for character in text)


def test_hostile_text_gives_github_no_command():
    log = github.render(samples.view(samples.hostile()), TOKEN).log.splitlines()
    end = log.index(f"::{TOKEN}::")
    assert log[0] == f"::stop-commands::{TOKEN}"
    assert all(line.startswith(("  ", "softmax ")) for line in log[1:end])
    assert all(re.fullmatch(r"::error [^:]*::.*", line) for line in log[end + 1 :])
    assert len(log[end + 1 :]) == 1  # the three dtypes failed at the same line in the same way


def test_hostile_text_is_no_markup_in_markdown():
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown.render(samples.view(samples.hostile())))
    inline = [child for token in tokens for child in token.children or ()]
    assert not {"html_block", "html_inline", "link_open", "image"} & {token.type for token in [*tokens, *inline]}
    fences = [token for token in tokens if token.type == "fence"]
    assert len(fences) == 3
    assert all("reproduce:" in token.content for token in fences)


def test_hostile_text_is_no_markup_in_html_and_xml():
    for staff in (False, True):
        page = html.render(samples.view(samples.hostile(), staff=staff))
        assert "<script>alert" not in page
        assert "<img src=x" not in page
    rows = [
        class_page.ClassRow(samples.NASTY, samples.hostile(), samples.NASTY, flags=(samples.NASTY,), note=samples.NASTY)
    ]
    assert "<script>alert" not in class_page.render("Class", rows)
    root = ET.fromstring(junit.render(samples.view(samples.hostile())))
    assert {element.tag for element in root.iter()} == {
        "testsuites",
        "testsuite",
        "properties",
        "property",
        "testcase",
        "failure",
    }


def test_csv_cells_are_no_formulas_and_rows_stay_rows():
    found = samples.result("=1+1", {"softmax": [samples.item("ragged", "raised", message="@SUM(A1)", hint="-2\n+3")]})
    rows = list(csv.DictReader(io.StringIO(table.render([samples.view(found), samples.view(samples.hostile())]))))
    assert len(rows) == 4
    assert (rows[0]["submission"], rows[0]["message"], rows[0]["hint"]) == ("'=1+1", "'@SUM(A1)", "'-2 +3")


def test_pictures_come_only_from_the_results_folder(tmp_path):
    folder = tmp_path / "of_result"
    folder.mkdir()
    (tmp_path / "outside.svg").write_text("<svg/>")
    (folder / "inside.svg").write_text("<svg/>")
    (folder / "large.png").write_bytes(b"x" * (html.MOST_PICTURE_BYTES + 1))
    (folder / "text.html").write_text("<p>")
    (folder / "link.svg").symlink_to(tmp_path / "outside.svg")
    names = [
        "../outside.svg",
        str(tmp_path / "outside.svg"),
        "link.svg",
        "large.png",
        "text.html",
        "none.png",
        "inside.svg",
    ]
    assert html.pictures(folder, names) == ["data:image/svg+xml;base64,PHN2Zy8+"]


def test_500_students_make_a_page_under_2_mb():
    page = class_page.render("Triton kernels", samples.a_class(500))
    assert len(page.encode()) < 2_000_000
    assert page.count('data-m="') == 501
