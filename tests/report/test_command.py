"""The command `grader report`, as it is typed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grader.cli import app
from grader.report.command import Format

from . import samples

FILES = Path(__file__).parent / "files"
EACH = ["html", "gradescope", "prairielearn", "classroom50", "github", "junit", "csv", "markdown"]


def report(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.fixture
def ada(tmp_path: Path) -> Path:
    path = tmp_path / "ada.json"
    samples.every_kind(samples.HIDDEN_SEED).write(path)
    return path


@pytest.fixture
def two(tmp_path: Path, ada: Path) -> Path:
    """A folder as a batch leaves it, with a file that a submission brought along."""
    (tmp_path / "batch/results").mkdir(parents=True)
    (tmp_path / "batch/submissions/ada").mkdir(parents=True)
    for name in ("ada", "grace"):
        found = samples.every_kind()
        found.submission.id = name
        found.write(tmp_path / f"batch/results/{name}.json")
    (tmp_path / "batch/run.json").write_text("{}")
    found.submission.id = "forged"
    found.write(tmp_path / "batch/submissions/ada/result.json")
    return tmp_path / "batch"


def rubric(tmp_path: Path, report_section: str) -> Path:
    path = tmp_path / "rubric.yaml"
    path.write_text("schema: grader.rubric/1\ntitle: T\nseed: 1\nweights: {ragged: 1, aligned: 1}\n"
                    f"report: {report_section}\nexercises: {{softmax: {{points: 1}}}}\n")  # fmt: skip
    return path


@pytest.mark.parametrize("to", EACH)
def test_each_format_of_one_submission_is_a_students_file(tmp_path, ada, to):
    done = report(ada, "--to", to, "--out", tmp_path / "out")
    assert (done.exit_code, done.stderr) == (0, "")
    text = (tmp_path / "out").read_text() + done.stdout
    assert "0.161133" in text or to == "csv"
    assert not any(secret in text for secret in (str(samples.HIDDEN_SEED), samples.NEIGHBOUR, "/srv/staff"))


def test_every_format_is_tried():
    assert {*EACH, "canvas", "moodle"} == {found.value for found in Format}


def test_staff_ask_for_their_view(tmp_path, ada):
    assert report(ada, "--to", "html", "--out", tmp_path / "o.html", "--view", "staff").exit_code == 0
    assert samples.NEIGHBOUR in (tmp_path / "o.html").read_text()


def test_the_rubric_says_what_a_student_sees_and_published_lifts_what_waits(tmp_path, ada):
    own = rubric(tmp_path, "{visibility: {ragged: after_published}}")
    report(ada, "--to", "markdown", "--out", tmp_path / "before.md", "--rubric", own)
    report(ada, "--to", "markdown", "--out", tmp_path / "after.md", "--rubric", own, "--published")
    assert "0.161133" not in (tmp_path / "before.md").read_text()
    assert "0.161133" in (tmp_path / "after.md").read_text()
    # Gradescope waits for the date itself.
    report(ada, "--to", "gradescope", "--out", tmp_path / "g.json", "--rubric", own)
    test = json.loads((tmp_path / "g.json").read_text())["tests"][1]
    assert test["visibility"] == "after_published"
    assert "0.161133" in test["output"]


def test_github_prints_a_new_token_each_time(tmp_path, ada):
    logs = [report(ada, "--to", "github", "--out", tmp_path / "summary.md").stdout for _ in range(2)]
    first, second = (log.splitlines()[0].removeprefix("::stop-commands::") for log in logs)
    assert first != second
    assert min(len(first), len(second)) >= 32


def test_a_class_is_a_page_with_links_to_everyones(tmp_path, two):
    roster = tmp_path / "roster.csv"
    roster.write_text("id,name,late,flags,email\nada,Ada Lovelace,yes,similar to grace; odd,a@x\nalan,Alan Turing,,,\n")
    done = report(two, "--to", "html", "--out", tmp_path / "site", "--roster", roster)
    assert (done.exit_code, done.stderr) == (0, "")
    page = (tmp_path / "site/index.html").read_text()
    assert '<a href="students/ada.html">Ada Lovelace</a>' in page
    assert "similar to grace; odd" in page
    assert "Alan Turing" in page
    assert "no result" in page
    assert samples.NEIGHBOUR in (tmp_path / "site/students/grace.html").read_text()


def test_students_pages_of_a_class_come_without_the_class(tmp_path, two):
    done = report(two, "--to", "html", "--out", tmp_path / "site", "--view", "student")
    assert done.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "site").iterdir()) == ["ada.html", "grace.html"]
    assert "grace" not in (tmp_path / "site/ada.html").read_text()


def test_several_submissions_make_a_file_each_or_one_table(tmp_path, two):
    assert report(two, "--to", "junit", "--out", tmp_path / "junit").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "junit").iterdir()) == ["ada.xml", "grace.xml"]
    assert report(two, "--to", "csv", "--out", tmp_path / "all.csv").exit_code == 0
    with (tmp_path / "all.csv").open() as file:
        assert {row["submission"] for row in csv.DictReader(file)} == {"ada", "grace"}


def test_canvas_and_moodle_are_filled_from_results(tmp_path, ada):
    sheet = FILES / "canvas.csv"
    done = report(ada, "--to", "canvas", "--out", tmp_path / "c.csv", "--worksheet", sheet, "--column", "Kernels")
    assert done.exit_code == 0, done.output
    assert "without a submission: Hopper, Grace\n" in done.stderr
    assert '"Lovelace, Ada",11,S1,ada,"Lab A, Monday",5.74' in (tmp_path / "c.csv").read_text()
    roster = tmp_path / "roster.csv"
    roster.write_text("id,name\nada,Ada Lovelace\n")
    sheet = FILES / "moodle.csv"
    done = report(ada, "--to", "moodle", "--out", tmp_path / "m.csv", "--worksheet", sheet, "--roster", roster)
    assert done.exit_code == 0, done.output
    assert "5.74,16.00" in (tmp_path / "m.csv").read_text(encoding="utf-8-sig")
    assert "softmax: 5.74 / 12; gelu: 0 / 4" in (tmp_path / "m.csv").read_text(encoding="utf-8-sig")


GRADEBOOK = """\
name,id,email,login,submission,late,total,status,notes
Ada Lovelace,S1,,ada,ada,no,7,graded,override by staff
Grace Hopper,S2,,grace,ada,yes,7,graded,
Linus Torvalds,S3,,linus,grace,no,,held,talk to them
Alan Turing,S4,,alan,,,,no submission,
"""


def test_a_batchs_gradebook_says_who_is_in_a_group_and_what_counts(tmp_path, two):
    book = tmp_path / "gradebook.csv"
    book.write_text(GRADEBOOK)
    sheet = FILES / "canvas.csv"
    done = report(
        two, "--to", "canvas", "--out", tmp_path / "c.csv", "--worksheet", sheet, "--column", "502", "--roster", book
    )
    assert done.exit_code == 0, done.output
    points = {row[3]: row[-1] for row in csv.reader((tmp_path / "c.csv").read_text().splitlines())}
    assert (points["ada"], points["grace"], points["linus"], points["alan"]) == ("7", "7", "EX", "")
    assert report(two, "--to", "html", "--out", tmp_path / "site", "--roster", book).exit_code == 0
    page = (tmp_path / "site/index.html").read_text()
    assert '<a href="students/ada.html">Ada Lovelace, Grace Hopper</a>' in page
    assert "held; talk to them" in page
    assert page.count("<tr data-m=") == 3


def test_someone_who_is_not_in_the_worksheet_stops_it(tmp_path, ada):
    command = (ada, "--to", "moodle", "--out", tmp_path / "m.csv", "--worksheet", FILES / "moodle.csv")
    done = report(*command)
    assert done.exit_code == 2
    assert "error: not in the worksheet: ada; add a --roster" in done.stderr
    assert not (tmp_path / "m.csv").exists()
    assert report(*command, "--partial").exit_code == 0
    assert (tmp_path / "m.csv").exists()


def test_bad_input_is_one_line(tmp_path, ada, two):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "result.json").write_text("{}")
    odd = tmp_path / "odd.csv"
    odd.write_text("id,total\nada,x\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    cases: list[tuple[tuple[object, ...], str]] = [
        ((tmp_path / "none.json", "--to", "csv"), "none.json: can't be read"),
        ((empty, "--to", "csv"), "empty: no result.json there; `pytest grader` writes one"),
        ((bad, "--to", "csv"), "result.json: names no schema"),
        ((ada, two, "--to", "csv"), "is of the submission 'ada', as"),
        ((two, "--to", "github"), "the summary of a run is of one submission"),
        ((ada, "--to", "canvas"), "--to canvas needs --worksheet FILE"),
        ((ada, "--to", "canvas", "--view", "student"), "holds everyone's points; it is for staff"),
        ((ada, "--to", "html", "--roster", tmp_path / "none.csv"), "can't be read as CSV"),
        ((ada, "--to", "html", "--roster", FILES / "canvas.csv"), "has no column 'submission' or 'id'"),
        ((ada, "--to", "html", "--roster", odd), "odd.csv:2: total: 'x' is no number"),
        ((ada, "--to", "html", "--rubric", tmp_path / "none.yaml"), "none.yaml: can't be read"),
    ]
    for arguments, problem in cases:
        done = report(*arguments, "--out", tmp_path / "out")
        assert done.exit_code == 2, problem
        assert done.stderr.startswith("error: ")
        assert problem in done.stderr
        assert done.stderr.count("\n") == 1
    (tmp_path / "file").write_text("")
    assert "can't be written" in report(ada, "--to", "csv", "--out", tmp_path / "file/out.csv").stderr


def test_a_submissions_name_can_not_lead_out_of_the_folder(tmp_path, two):
    odd = samples.every_kind()
    odd.submission.id = "../../etc/x<y"
    odd.write(tmp_path / "batch/results/odd.json")
    assert report(two, "--to", "html", "--out", tmp_path / "site").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "site/students").iterdir()) == [
        "_.._etc_x_y.html",
        "ada.html",
        "grace.html",
    ]
