"""Canvas and Moodle: the downloaded file comes back with points in it and nothing else changed."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from grader.errors import ReportError
from grader.report import canvas, moodle
from grader.report.worksheet import Grade

from .test_formats import GOLDEN

FILES = Path(__file__).parent / "files"
ADA = Grade(("ada",), 13.5, 16.0, "softmax: 5.74 / 12; <b>gelu</b>: 0 / 4")
LINUS = Grade(("S3",), 9.0, 16.0)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def test_canvas_gets_who_and_the_assignment_only():
    filled = canvas.fill(FILES / "canvas.csv", [ADA, LINUS], "Kernels")
    assert filled.text == (GOLDEN / "canvas.csv").read_text()
    assert filled.kept == ("Torvalds, Linus: excused",)
    assert filled.missing == ("Hopper, Grace", "Turing, Alan", "Student, Test")
    assert filled.unmatched == ()


@pytest.mark.parametrize("column", ["502", "Kernels (502)", "Kernels"])
def test_canvas_finds_an_assignment_by_id_or_title(column):
    assert rows(canvas.fill(FILES / "canvas.csv", [ADA], column).text)[3][-1] == "13.5"


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (None, r"name the assignment with --column; the file has 'Homework 1 \(501\)', 'Kernels \(502\)'"),
        ("Kernel", "'Kernel' is no assignment of this file: Canvas would add a column"),
        ("Final Score", "'Final Score' is no assignment of this file"),
    ],
)
def test_canvas_refuses_a_column_that_it_would_not_find(column, problem):
    with pytest.raises(ReportError, match=problem):
        canvas.fill(FILES / "canvas.csv", [ADA], column)


def test_canvas_refuses_a_file_that_is_no_gradebook():
    with pytest.raises(ReportError, match="has no column 'Student'; give the gradebook as Canvas exported it"):
        canvas.fill(FILES / "moodle.csv", [ADA], "Grade")


def test_points_are_brought_to_another_scale_only_when_asked():
    other = Grade(("ada",), 100.0, 200.0)
    with pytest.raises(ReportError, match=r"it counts 16 points, the results 200; --scale brings them to its scale"):
        canvas.fill(FILES / "canvas.csv", [other], "502")
    assert rows(canvas.fill(FILES / "canvas.csv", [other], "502", scale=True).text)[3][-1] == "8"


def test_a_key_that_fits_two_people_or_two_results_of_one_person_are_refused(tmp_path):
    with pytest.raises(ReportError, match="ada and S1 are the same person"):
        canvas.fill(FILES / "canvas.csv", [ADA, Grade(("S1",), 1.0, 16.0)], "502")
    twice = tmp_path / "twice.csv"
    twice.write_text((FILES / "canvas.csv").read_text().replace(",grace,", ",ada,"))
    with pytest.raises(ReportError, match="ada fits 2 people"):
        canvas.fill(twice, [ADA], "502")


def test_moodle_comes_back_byte_for_byte_but_for_grade_and_feedback():
    filled = moodle.fill(
        FILES / "moodle.csv", [ADA_MOODLE, Grade(("73",), 9.0, 16.0), Grade(("nobody",), 1.0, 16.0)], None
    )
    assert filled.text.encode() == (GOLDEN / "moodle.csv").read_bytes()
    assert filled.kept == ("Participant 73: Moodle has locked this grade",)
    assert filled.missing == ("Participant 72",)
    assert filled.unmatched == ("nobody",)
    assert rows(filled.text)[1][4] == "13.5"
    assert rows(filled.text)[1][-1] == "softmax: 5.74 / 12; &lt;b&gt;gelu&lt;/b&gt;: 0 / 4"


ADA_MOODLE = Grade(("ada@example.org",), ADA.points, ADA.maximum, ADA.feedback)


def test_moodle_in_another_language_wants_the_heading(tmp_path):
    path = tmp_path / "de.csv"
    path.write_text("ID;Vollständiger Name;Bewertung;Feedback als Kommentar\nTeilnehmer/in71;Ada Lovelace;;\n")
    with pytest.raises(ReportError, match=r"has no column 'Grade'; name it with --column. It has 'ID', "):
        moodle.fill(path, [Grade(("71",), 1.5, 2.0)], None)
    filled = moodle.fill(path, [Grade(("71",), 1.5, 2.0, "good")], "Bewertung", "Feedback als Kommentar")
    assert filled.text.splitlines()[1] == "Teilnehmer/in71;Ada Lovelace;1.5;good"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"", "is no CSV file with a header"),
        (b"Student,ID,Section,K (1)\nAda,1\n", "row 2 has 2 cells, the header 4"),
    ],
)
def test_a_broken_worksheet_is_one_clear_error(tmp_path, data, problem):
    path = tmp_path / "sheet.csv"
    path.write_bytes(data)
    with pytest.raises(ReportError, match=problem):
        canvas.fill(path, [ADA], None)


def test_a_worksheet_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(ReportError, match="can't be read"):
        moodle.fill(tmp_path / "none.csv", [ADA], None)
