"""What the book of a class must not do: keep what is gone, mix students or classes up, or fall over one bad input."""

from __future__ import annotations

import csv
import io
import os
import sqlite3
import tarfile
import threading
import zipfile
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from grader.batch import run, slots
from grader.batch.intake import take_in
from grader.batch.intake.handed import Handed
from grader.batch.ledger import Ledger
from grader.batch.roster import load_roster
from grader.batch.staff import decide
from grader.batch.staging import collect
from grader.batch.unpack import unpack
from grader.cli import app
from grader.errors import ArchiveError, GraderError
from tests.batch_class import gradebook, graded, rubric, six_submissions


@pytest.fixture
def options(tmp_path):
    return six_submissions(tmp_path)


def files_of(out, folder):
    return sorted(path.stem for path in (out / folder).glob("*.*"))


# ---------------------------------------------------------------- what is gone


def test_what_is_refused_or_removed_leaves_no_result_to_export(options):
    graded(options)
    assert files_of(options.out, "results") == ["ada", "alan", "grace", "katherine", "linus", "mary"]
    (options.submissions / "alan").rename(options.submissions.parent / "alan")
    (options.submissions / "ada_attempt_2").mkdir()
    (options.submissions / "ada_attempt_2/gelu.py").symlink_to(options.submissions / "mary/gelu.py")
    assert graded(options)[0] == 0
    assert gradebook(options.out)["ada"]["status"] == "refused"
    for folder in ("results", "feedback"):
        assert files_of(options.out, folder) == ["grace", "katherine", "linus", "mary"]


def test_a_grade_that_is_held_back_is_in_no_report(options, tmp_path):
    graded(options)
    (tmp_path / "who.csv").write_text("who,pseudonym\ngrace,G\nada,A\n")
    graded(replace(options, leaderboard=tmp_path / "who.csv"))
    assert "G" in (options.out / "leaderboard.csv").read_text()
    decide(options.out, "grace", "", None, True, "under discussion", "kim", None)
    assert "grace" not in files_of(options.out, "results")
    assert files_of(options.out, "held") == ["grace"]
    assert not (options.out / "leaderboard.csv").exists()
    pages = tmp_path / "pages"
    done = CliRunner().invoke(app, ["report", str(options.out), "--to", "html", "--view", "student", "--out",
                                    str(pages), "--roster", str(options.out / "gradebook.csv"),
                                    "--rubric", str(options.rubric)])  # fmt: skip
    assert done.exit_code == 0, done.output
    assert sorted(path.stem for path in pages.rglob("*.html")) == ["ada", "alan", "katherine", "linus", "mary"]
    decide(options.out, "grace", "", None, False, "cleared", "kim", None)
    assert "grace" in files_of(options.out, "results")
    assert files_of(options.out, "held") == []


def test_points_given_by_hand_to_what_was_refused_reach_canvas(options, tmp_path):
    (options.submissions / "ada/gelu.py").unlink()
    (options.submissions / "ada/gelu.py").symlink_to(options.submissions / "mary/gelu.py")
    graded(options)
    decide(options.out, "ada", "", 7.0, None, "by mail", "kim", None)
    sheet = tmp_path / "canvas.csv"
    sheet.write_text("Student,ID,Section,HW1 (5)\nPoints Possible,,,10\nada,1,A,\nalan,2,A,\n")
    done = CliRunner().invoke(app, ["report", str(options.out), "--to", "canvas", "--worksheet", str(sheet), "--out",
                                    str(tmp_path / "up.csv"), "--roster", str(options.out / "gradebook.csv"),
                                    "--rubric", str(options.rubric), "--partial"])  # fmt: skip
    assert done.exit_code == 0, done.output
    with (tmp_path / "up.csv").open() as file:
        assert next(row for row in csv.DictReader(file) if row["Student"] == "ada")["HW1 (5)"] == "7"


def test_decisions_on_an_attempt_before_are_told(options, capsys):
    graded(options)
    decide(options.out, "ada", "", None, True, "under discussion", "kim", None)
    (options.submissions / "ada").rename(options.submissions / "ada_attempt_2")
    capsys.readouterr()
    graded(options)
    assert "no longer in the book: ada, held by kim: under discussion" in capsys.readouterr().out


# ---------------------------------------------------------------- ledgers and decisions


def test_a_class_of_another_ledger_is_not_written_anew_from_an_empty_one(options, tmp_path):
    elsewhere = replace(options, ledger=f"sqlite:///{tmp_path}/elsewhere.sqlite")
    graded(elsewhere)
    before = gradebook(options.out)
    for again in (lambda: decide(options.out, "ada", "gelu", 9.0, None, "x", "kim", None), lambda: graded(options)):
        with pytest.raises(GraderError, match="give the --ledger that it was graded with"):
            again()
    assert gradebook(options.out) == before
    assert not (options.out / "ledger.sqlite").exists()
    decide(options.out, "ada", "gelu", 9.0, None, "x", "kim", elsewhere.ledger)
    assert gradebook(options.out)["ada"]["gelu"] == "9"


@pytest.mark.parametrize("points", [float("inf"), float("nan"), -1.0])
def test_points_that_are_none_are_refused_and_not_kept(options, points):
    graded(options)
    with pytest.raises(GraderError, match="must be a number of at least 0"):
        decide(options.out, "ada", "", points, None, "x", "kim", None)
    assert Ledger.in_file(options.out / "ledger.sqlite").overrides() == []


def test_a_hold_while_the_book_is_written_is_in_the_book(options, monkeypatch):
    graded(options)
    real, meanwhile = run._write_rows, []

    def write(*arguments):
        if not meanwhile:
            hold = (options.out, "ada", "", None, True, "x", "kim", None)
            meanwhile.append(threading.Thread(target=decide, args=hold))
            meanwhile[0].start()
            meanwhile[0].join(1.0)
        real(*arguments)

    monkeypatch.setattr(run, "_write_rows", write)
    graded(options)
    meanwhile[0].join(30)
    assert gradebook(options.out)["ada"]["status"] == "held"
    assert not (options.out / "feedback/ada.md").exists()


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM meta", "UPDATE meta SET schema = 'x'", "DROP TABLE holds", "ALTER TABLE grades DROP COLUMN slot"],
)
def test_a_ledger_that_is_damaged_is_one_line(options, statement):
    graded(options)
    with sqlite3.connect(options.out / "ledger.sqlite") as ledger:
        ledger.execute(statement)
    with pytest.raises(GraderError, match="the ledger is no grader's, or damaged"):
        graded(options)


def test_a_ledger_that_another_process_has_locked_is_one_line_without_the_seed(options, monkeypatch):
    graded(options)
    monkeypatch.setattr(
        "grader.batch.ledger._durable", lambda connection, _: connection.execute("PRAGMA busy_timeout=9")
    )
    other = sqlite3.connect(options.out / "ledger.sqlite")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(GraderError, match="the ledger: database is locked") as error:
        graded(replace(options, seed=918273645))
    assert "918273645" not in str(error.value)
    other.close()


# ---------------------------------------------------------------- whose it is


@pytest.mark.parametrize(
    ("files", "refused", "others", "owners"),
    [(("ada/gelu.py", "bob/gelu.py"), "bob/ada/link.py", "ada", "bob"),
     (("ada_12_5_gelu.py", "bob_99_6_softmax.py"), "bob_99_6_x_12_y.py", "ada_12", "bob_99")],
    ids=["plain", "canvas"],
)  # fmt: skip
def test_a_member_that_is_refused_is_its_owners_alone(tmp_path, files, refused, others, owners):
    archive = tmp_path / "class.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for file in files:
            made.writestr(file, f"# {file}\n")
        link = zipfile.ZipInfo(refused)
        link.external_attr = 0o120777 << 16
        made.writestr(link, "/etc/passwd")
    (tmp_path / "scratch").mkdir()
    taken = take_in(archive, tmp_path / "scratch").submissions
    assert taken[others].problem == ""
    assert "is a link" in taken[owners].problem


def test_a_students_folder_does_not_pass_for_the_export(options):
    for path in list(options.submissions.iterdir())[1:]:
        with zipfile.ZipFile(path.with_suffix(".zip"), "w") as made:
            made.write(path / "gelu.py", "gelu.py")
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    (eve,) = (path for path in options.submissions.iterdir() if path.is_dir())
    (eve / "x").mkdir()
    (eve / "submission_metadata.yml").write_text("x:\n  :submitters:\n  - :name: Ada\n    :email: ada@x\n")
    taken = take_in(options.submissions, options.out)
    assert (taken.kind, len(taken.submissions)) == ("plain", 6)


def test_people_without_ids_are_not_one_person(tmp_path):
    root = tmp_path / "export"
    metadata = ""
    for name in ("one", "two", "three", "four"):
        (root / name).mkdir(parents=True)
        person = "Wei Zhang" if name in ("three", "four") else ""
        metadata += f"{name}:\n  :submitters:\n  - :name: '{person}'\n    :sid: ''\n"
    (root / "submission_metadata.yml").write_text(metadata)
    assert len(take_in(root, tmp_path).submissions) == 4


def test_folders_that_differ_in_case_are_different_students(tmp_path):
    for name in ("ada", "Ada", "ADA"):
        (tmp_path / "class" / name).mkdir(parents=True)
    taken = take_in(tmp_path / "class", tmp_path).submissions
    assert [one.name for one in taken.values()] == ["ADA", "Ada", "ada"]


def test_two_of_the_same_attempt_are_refused_and_none_is_passed_over_in_silence(options):
    with zipfile.ZipFile(options.submissions / "ada.zip", "w") as made:
        made.writestr("gelu.py", "# another\n")
    assert graded(options)[0] == 0
    row = gradebook(options.out)["ada"]
    assert row["status"] == "refused"
    assert "nothing tells which of ada and ada is later" in row["notes"]


def test_an_archive_supplies_what_is_not_beside_it(tmp_path):
    with zipfile.ZipFile(tmp_path / "rest.zip", "w") as made:
        made.writestr("softmax.py", "# softmax\n")
        made.writestr("gelu.py", "# an older one\n")
    (tmp_path / "gelu.py").write_text("# gelu\n")
    assert collect(Handed("ada", (), folders=(tmp_path,)), {"gelu": "gelu.py", "softmax": "softmax.py"}) == {
        "gelu.py": b"# gelu\n", "softmax.py": b"# softmax\n"}  # fmt: skip


def test_a_linked_folder_is_refused(options):
    nested = replace(options, rubric=rubric(options.rubric, "points: 10, file: kernels/gelu.py"))
    (options.submissions / "grace/kernels").mkdir()
    (options.submissions / "grace/gelu.py").rename(options.submissions / "grace/kernels/gelu.py")
    (options.submissions / "ada/kernels").symlink_to(options.submissions / "grace/kernels")
    graded(nested)
    rows = gradebook(options.out)
    assert "kernels is a link" in rows["ada"]["notes"]
    assert rows["grace"]["status"] == "graded"


def test_a_roster_says_why_somebody_does_not_fit(tmp_path, options):
    path = tmp_path / "roster.csv"
    path.write_text("Identifier,Full name\nParticipant 11,Ada Lovelace\nParticipant 11,Ada Lovelace\n")
    (one,) = load_roster(path)
    assert one.id == "11"
    path.write_text("name,login\nAda Lovelace,ada\n")
    (options.submissions / "Ada Lovelace").mkdir()
    graded(replace(options, roster=path))
    with (options.out / "gradebook.csv").open() as file:
        notes = [row["notes"] for row in csv.DictReader(file)]
    assert any("has the submission" in note for note in notes)


# ---------------------------------------------------------------- bad input is one line, and costs one student


def odd_archives():
    """Name and bytes of archives at which the standard library fails in ways of its own."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("Xa.py", "1")
    yield "nul.zip", buffer.getvalue().replace(b"Xa.py", b"\0a.py")
    record = b"99999999999999999999 a=b\n"
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(record)
    data = header.tobuf(tarfile.USTAR_FORMAT) + record.ljust(512, b"\0")
    yield "pax.tar", data + tarfile.TarInfo("a.py").tobuf(tarfile.USTAR_FORMAT) + bytes(1024)


@pytest.mark.parametrize(
    ("name", "data"), list(odd_archives()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_archive_made_to_break_the_reader_is_refused(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    (tmp_path / "into").mkdir()
    with pytest.raises(ArchiveError):
        unpack(tmp_path / name, tmp_path / "into")


def test_names_that_are_no_utf_8_cost_nobody_anything(options, capsys):
    (options.submissions / os.fsdecode(b"J\xf6rg")).mkdir()
    (options.submissions / "ada" / os.fsdecode(b"\xff\x1b[31m.py")).symlink_to("/etc/passwd")
    assert graded(options)[0] == 0
    rows = gradebook(options.out)
    assert len(rows) == 7
    assert rows["ada"]["status"] == "refused"
    assert "\x1b" not in capsys.readouterr().out


def test_a_pipe_in_the_class_is_no_submission(options):
    os.mkfifo(options.submissions / "pipe.zip")
    assert graded(options)[0] == 0
    assert len(gradebook(options.out)) == 6


def test_a_broken_note_of_the_last_run_is_written_anew(options):
    graded(options)
    (options.out / "run.json").write_text("{")
    assert graded(options)[0] == 0


def test_an_output_folder_with_brackets_is_printed_as_it_is(options, capsys):
    strange = replace(options, out=options.out.with_name("out[b]"))
    assert graded(strange)[0] == 0
    assert "/out[b]" in capsys.readouterr().out


def test_a_pattern_that_fits_nobody_is_refused(options):
    with pytest.raises(GraderError, match=r"--only zzz\*: no submission has such an id"):
        graded(replace(options, only=("zzz*",)))


def test_an_output_folder_among_the_submissions_is_refused(options):
    with pytest.raises(GraderError, match="lies in the submissions"):
        graded(replace(options, out=options.submissions / "out"))
    assert not (options.submissions / "out").exists()


def test_a_gpu_that_is_named_twice_is_refused(tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nprintf 'a warning\\n0, GPU-0, H200\\n1, GPU-1, H200\\n'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slots.find_gpus("0,1") == (["0", "1"], "H200")
    for twice in ("0,0", "0,GPU-0"):
        with pytest.raises(GraderError, match="names one GPU twice"):
            slots.find_gpus(twice)


# ---------------------------------------------------------------- what a run depends on


def test_a_rubric_changed_meanwhile_counts_in_the_next_run(options, monkeypatch):
    read = []

    def grade(slot, job):
        options.rubric.write_text("changed")
        read.append(slot._grader.rubric.read_text())
        return real(slot, job)

    before = options.rubric.read_text()
    real = slots.ChildSlot.run
    monkeypatch.setattr(slots.ChildSlot, "run", grade)
    graded(options)
    assert set(read) == {before}
    monkeypatch.undo()
    rubric(options.rubric, "points: 40")
    assert len(graded(options)[1]) == 6


def test_what_students_are_shown_moves_no_grade(options):
    graded(options)
    options.rubric.write_text(options.rubric.read_text() + "report: {leaderboard: true}\nadequacy: {share: 0.9}\n")
    assert graded(options) == (0, [])


def test_similarity_is_looked_for_again_with_more_exercises(options):
    same = "import triton\n" + "\n".join(f"x{i} = {i} * y{i} + z{i}" for i in range(60))
    for name in ("ada", "alan"):
        (options.submissions / name / "softmax.py").write_text(same)
    graded(replace(options, exercises=("gelu",)))
    assert "softmax" not in (options.out / "similarity.csv").read_text()
    graded(options)
    assert "softmax,ada,alan" in (options.out / "similarity.csv").read_text()


def test_a_dry_run_of_fewer_exercises_moves_nobody_and_says_who_falls_out(options, capsys):
    graded(options)
    capsys.readouterr()
    (options.submissions / "mary/gelu.py").unlink()
    (options.submissions / "mary/gelu.py").symlink_to(options.submissions / "ada/gelu.py")
    graded(replace(options, exercises=("gelu",), dry_run=True))
    told = capsys.readouterr().out
    assert "moves 0 students' submissions" in told
    assert "mary: graded, now refused" in told
