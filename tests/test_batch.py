"""`grader batch`: what is graded when, what survives, what comes out. Most tests put a fast child in pytest's place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from grader.batch import book, slots
from grader.batch.commands import hidden_seed
from grader.batch.entry import load_class
from grader.batch.leaderboard import load_participants
from grader.batch.ledger import Ledger
from grader.batch.run import Options, grade_class
from grader.batch.schedule import TRIES
from grader.batch.staff import decide
from grader.cli import app
from grader.control import seed_from
from grader.errors import GraderError
from grader.sandbox import Sandbox
from tests.batch_class import ROOT, gradebook, graded, rubric, six_submissions


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return six_submissions(tmp_path)


def test_everything_is_graded_once_and_a_second_run_has_nothing_to_do(options, capsys):
    status, asked = graded(options)
    assert status == 0
    assert asked == [f"{name} gelu softmax" for name in ("ada", "alan", "grace", "katherine", "linus", "mary")]
    first = gradebook(options.out)
    assert {row["status"] for row in first.values()} == {"graded"}
    assert float(first["ada"]["gelu"]) + float(first["ada"]["softmax"]) == float(first["ada"]["total"])
    times = {path: path.stat().st_mtime_ns for path in options.out.rglob("*.[jct]*") if path.name != "class.json"}
    status, asked = graded(options)
    assert (status, asked) == (0, [])
    assert "nothing has changed" in capsys.readouterr().out
    assert gradebook(options.out) == first
    assert times == {path: path.stat().st_mtime_ns for path in times}


def test_only_what_changed_is_graded_again(options, capsys):
    graded(options)
    (options.submissions / "ada/gelu.py").write_text("# new\n")
    assert graded(options)[1] == ["ada gelu softmax"]  # softmax.py may import gelu.py
    assert "2 files changed" in capsys.readouterr().out
    rubric(options.rubric, gelu="points: 12")
    assert graded(options)[1] == [f"{name} gelu" for name in ("ada", "alan", "grace", "katherine", "linus", "mary")]
    assert "6 rubric changed" in capsys.readouterr().out
    assert len(Ledger.in_file(options.out / "ledger.sqlite").grades()) == 12 + 2 + 6
    rubric(options.rubric)
    assert graded(options)[1] == []  # as it was: those grades are there


def test_the_seed_belongs_to_the_key_and_is_remembered(options):
    graded(replace(options, seed=77))
    assert json.loads((options.out / "results/ada.json").read_text())["environment"]["seed"] == 77
    facts = json.loads((options.out / "run.json").read_text())
    assert (facts["seed"], facts["hidden"], facts["device"]) == (77, True, "cpu")
    assert graded(options)[1] == []  # a resumed run needs not be told again
    assert len(graded(replace(options, seed=78))[1]) == 6


def test_no_command_line_and_no_environment_shows_the_seed(options, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADER_SEED", "918273645")
    graded(replace(options, seed=hidden_seed(None)))
    shown = (tmp_path / "log.cmdline").read_bytes() + (tmp_path / "log.environ").read_bytes()
    assert b"--submission" in shown
    assert b"PATH=" in shown
    assert b"918273645" not in shown


def test_a_judge_ends_with_its_coordinator():
    control, ours = os.pipe()
    program = f"import time; from grader.control import seed_from; print(seed_from({control})); time.sleep(60)"
    judge = subprocess.Popen([sys.executable, "-P", "-u", "-c", program], pass_fds=(control,), stdout=subprocess.PIPE,
                             cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    os.close(control)
    os.write(ours, b'{"seed": 5}\n')
    assert judge.stdout.readline() == b"5\n"
    assert judge.poll() is None
    os.close(ours)
    assert judge.wait(30) == 3
    judge.stdout.close()


@pytest.mark.parametrize("said", [b"", b"5\n", b'{"seed": "5"}\n', b"x" * 5000])
def test_a_pipe_that_says_nothing_useful_is_bad_input(said):
    control, ours = os.pipe()
    os.write(ours, said)
    os.close(ours)
    with pytest.raises(GraderError, match="--control"):
        seed_from(control)
    os.close(control)


def test_a_dry_run_says_who_would_move_and_leaves_the_book(options, capsys):
    graded(options)
    first = gradebook(options.out)
    kept = {path: path.read_bytes() for path in options.out.rglob("*") if path.is_file() and "ledger" not in path.name}
    (options.submissions / "ada/gelu.py").write_text("# much better 3\n")
    capsys.readouterr()
    status, asked = graded(replace(options, dry_run=True))
    shown = capsys.readouterr().out
    after = {path: path.read_bytes() for path in kept}
    assert (status, asked, after) == (0, ["ada gelu softmax"], kept)
    assert graded(options)[1] == []  # what the dry run graded counts
    graded(replace(options, dry_run=True, seed=5))
    assert graded(options)[1] == []  # nor does a dry run change the seed
    moved = float(gradebook(options.out)["ada"]["total"]) - float(first["ada"]["total"])
    assert moved != 0
    assert f"ada: {moved:+.2f}" in shown
    assert f"moves 1 students' submissions, {moved:+.1f} … {moved:+.1f}; the book is as it was" in shown


def test_overrides_and_holds_show_in_the_book_and_can_be_taken_back(options):
    graded(options)
    first = gradebook(options.out)["ada"]
    decide(options.out, "ada", "gelu", 9.5, None, "appeal granted", "kim", None)
    row = gradebook(options.out)["ada"]
    assert (row["gelu"], float(row["total"])) == ("9.5", 9.5 + float(first["softmax"]))
    assert row["notes"] == "override of gelu: 9.5 by kim: appeal granted"
    assert "override of gelu: 9.5" in (options.out / "feedback/ada.md").read_text()
    decide(options.out, "ada", "", None, True, "talk first", "kim", None)
    row = gradebook(options.out)["ada"]
    assert (row["status"], row["total"], row["gelu"]) == ("held", "", "")
    assert not (options.out / "feedback/ada.md").exists()
    assert "ada,held," in (options.out / "flagged.csv").read_text()
    decide(options.out, "ada", "", None, False, "talked", "kim", None)
    decide(options.out, "ada", "gelu", None, None, "withdrawn", "kim", None)
    assert graded(options)[1] == []
    assert gradebook(options.out)["ada"] == first
    ledger = Ledger.in_file(options.out / "ledger.sqlite")
    assert [over.points for over in ledger.overrides()] == [9.5, None]


def test_the_command_says_that_it_was_done(options):
    graded(options)
    done = CliRunner().invoke(app, ["override", str(options.out), "ada", "--points", "7", "--reason", "appeal"])
    assert (done.exit_code, done.output) == (0, f"ada: kept in the ledger, and in {options.out}/gradebook.csv\n")
    assert gradebook(options.out)["ada"]["total"] == "7"


@pytest.mark.parametrize(
    ("submission", "exercise", "reason", "says"),
    [("bob", "", "x", "bob: there is no such submission"), ("ada", "gelo", "x", "there is no such exercise"),
     ("ada", "", " ", "say why")],
)  # fmt: skip
def test_a_decision_on_nothing_is_refused(options, submission, exercise, reason, says):
    graded(options)
    with pytest.raises(GraderError, match=says):
        decide(options.out, submission, exercise, 1.0, None, reason, "kim", None)


def test_a_grader_that_is_not_installed_is_said_before_anything_is_graded(options, monkeypatch):
    monkeypatch.setattr(slots, "entry_points", lambda group: [])
    with pytest.raises(GraderError, match=f"has no kernel-grader installed: pip install -e {options.root}"):
        grade_class(options, Console())
    assert not options.out.exists()


def test_faults_are_no_points_lost_and_are_tried_again_next_time(options, capsys):
    (options.submissions / "ada/gelu.py").write_text("# die\n")
    (options.submissions / "alan/gelu.py").write_text("# fault\n")
    (options.submissions / "mary/gelu.py").write_text("# hang\n")
    status, asked = graded(replace(options, timeout_s=1))
    assert status == 1
    assert len(asked) == 3 + 3 * TRIES
    rows = gradebook(options.out)
    assert {name: rows[name]["status"] for name in ("ada", "alan", "grace", "mary")} == {
        "ada": "grader fault", "alan": "grader fault", "grace": "graded", "mary": "grader fault"}  # fmt: skip
    assert rows["ada"]["total"] == rows["ada"]["gelu"] == ""
    assert rows["ada"]["notes"] == "pytest grader left no result and ended with exit status 1: no result from me"
    assert "gelu aligned float32: made up" in rows["alan"]["notes"]
    assert "was not finished within 1 s" in rows["mary"]["notes"]
    assert "will be tried again" in capsys.readouterr().out
    (options.submissions / "ada/gelu.py").write_text("# fine now\n")
    (options.submissions / "alan/gelu.py").write_text("# fine now\n")
    (options.submissions / "mary/gelu.py").write_text("# fine now\n")
    assert graded(options) == (0, [f"{name} gelu softmax" for name in ("ada", "alan", "mary")])
    assert {row["status"] for row in gradebook(options.out).values()} == {"graded"}


def test_a_refused_submission_is_a_row_with_the_reason_and_no_points(options):
    (options.submissions / "eve.zip").write_bytes(b"no zip")
    status, asked = graded(options)
    row = gradebook(options.out)["eve"]
    assert (status, len(asked)) == (0, 6)
    assert (row["status"], row["total"]) == ("refused", "")
    assert "is not a whole zip archive" in row["notes"]
    assert "eve,refused,is not a whole zip" in (options.out / "flagged.csv").read_text()


def test_what_is_only_suspicious_is_told_to_staff_and_not_to_students(options):
    (options.submissions / "ada/gelu.py").write_text("# odd\n")
    graded(options)
    assert 'ada,suspicious,"gelu aligned made-up: {""source"": [""odd' in (options.out / "flagged.csv").read_text()
    assert "odd" not in (options.out / "feedback/ada.md").read_text()


def test_what_is_said_of_several_items_is_one_row_for_staff(options):
    (options.submissions / "ada/gelu.py").write_text("# odd # thrice\n")
    graded(options)
    [line] = [line for line in (options.out / "flagged.csv").read_text().splitlines() if line.startswith("ada,susp")]
    assert line.startswith('ada,suspicious,"gelu aligned made-up and 2 more: {""source""')


def test_the_roster_gives_a_row_to_everybody(options, tmp_path, capsys):
    (tmp_path / "roster.csv").write_text("name,login\nMary Shelley,mary\nAda L,ada\nBarbara Liskov,barbara\n")
    graded(replace(options, roster=tmp_path / "roster.csv"))
    rows = gradebook(options.out)
    assert list(rows)[:3] == ["Mary Shelley", "Ada L", "Barbara Liskov"]
    assert (rows["Barbara Liskov"]["status"], rows["Barbara Liskov"]["total"]) == ("no submission", "")
    assert rows["alan"]["notes"] == "alan is not on the roster"
    shown = capsys.readouterr().out
    assert "no submission from 1 of the roster: Barbara Liskov" in shown
    assert "linus: linus is not on the roster" in shown


def test_cells_that_a_spreadsheet_would_run_are_text(options):
    (options.submissions / "ada").rename(options.submissions / "=cmd()")
    graded(options)
    lines = (options.out / "gradebook.csv").read_text().splitlines()
    assert any(line.startswith("'=cmd()") for line in lines)
    assert not any(line.startswith("=") for line in lines)


def test_the_leaderboard_has_those_who_take_part_under_their_pseudonyms(options, tmp_path):
    (tmp_path / "board.csv").write_text("who,pseudonym\nada,Analyst\nMARY,Monster\nbob,Builder\n")
    graded(replace(options, leaderboard=tmp_path / "board.csv"))
    text = (options.out / "leaderboard.csv").read_text()
    assert text.startswith("benchmark,rank,pseudonym,speedup\n")
    for who in ("ada", "mary", "alan"):
        assert who not in text
    points = {name: float(row["gelu"]) for name, row in gradebook(options.out).items()}
    expected = sorted(
        ((points[name], alias) for name, alias in (("ada", "Analyst"), ("mary", "Monster"))), reverse=True
    )
    lines = [line.split(",") for line in text.splitlines() if line.startswith("gelu ")]
    assert [(float(line[3]), line[2]) for line in lines] == [(value + 1, alias) for value, alias in expected if value]


@pytest.mark.parametrize(
    ("text", "says"),
    [("who\nada\n", "must be `who,pseudonym`"), ("who,pseudonym\nada,\n", ":2: needs both"),
     ("who,pseudonym\nada,X\nbob,X\n", ":3: 'X' or 'bob' is there twice")],
)  # fmt: skip
def test_a_leaderboard_file_that_can_not_be_used_says_why(tmp_path, text, says):
    (tmp_path / "board.csv").write_text(text)
    with pytest.raises(GraderError, match=says):
        load_participants(tmp_path / "board.csv")


def test_statistics_count_who_fails_what(options):
    graded(options)
    facts = json.loads((options.out / "statistics.json").read_text())
    rows = gradebook(options.out).values()
    gelu = next(one for one in facts["checks"] if one["exercise"] == "gelu")
    assert gelu["passed"] == sum(float(row["gelu"]) > 0 for row in rows)
    assert gelu["passed"] + gelu["failed"] == facts["submissions"]["graded"] == 6
    totals = sorted(float(row["total"]) for row in rows)
    assert facts["total"]["median"] == pytest.approx((totals[2] + totals[3]) / 2)
    assert sum(one["count"] for one in facts["total"]["histogram"]) == 6
    assert facts["speedups"]["gelu made-up"]["count"] == gelu["passed"]
    assert "speedup of gelu made-up: median" in (options.out / "statistics.txt").read_text()


def test_copies_are_reported_and_the_starter_is_not(options):
    starter = (ROOT / "student/gelu.py").read_text()
    original = (ROOT / "tests/submissions/gelu/right_persistent.py").read_text()
    copy = "\n".join(line + "  # mine" for line in original.replace("offs", "index").splitlines() if '"""' not in line)
    for name, text in {"ada": original, "alan": copy, "grace": starter, "linus": starter,
                       "mary": (ROOT / "tests/submissions/gelu/right_libdevice.py").read_text()}.items():  # fmt: skip
        (options.submissions / name / "gelu.py").write_text(text)
    graded(options)
    lines = (options.out / "similarity.csv").read_text().splitlines()
    assert lines[0] == "exercise,submission,other,share"
    pairs = {tuple(line.split(",")[1:3]) for line in lines[1:]}
    assert ("ada", "alan") in pairs
    assert not {pair for pair in pairs if "grace" in pair or "linus" in pair}


def test_two_coordinators_do_not_share_a_folder(options):
    options.out.mkdir()
    import fcntl

    with (options.out / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(GraderError, match="another grader batch is at work there"):
            graded(options)


def test_without_a_sandbox_nothing_runs_unless_allowed(options, monkeypatch):
    monkeypatch.setattr("grader.batch.isolation.choose", lambda *_, **__: Sandbox("L0"))
    with pytest.raises(GraderError, match=r"without a sandbox \(level L0\).*--unsafe"):
        graded(replace(options, unsafe=False))
    assert not (options.out.parent / "log").exists()


def test_a_result_from_outside_a_sandbox_ends_the_run(options, monkeypatch):
    monkeypatch.setattr("grader.batch.isolation.child_options", lambda **_: ())  # as if there were one
    with pytest.raises(GraderError, match="without a sandbox"):
        graded(replace(options, unsafe=False))
    assert Ledger.in_file(options.out / "ledger.sqlite").grades() == []


@pytest.mark.parametrize(("text", "seed"), [("12\n", 12), ("", None), ("-4711", "refused"), ("0x1", "refused")])
def test_the_hidden_seed_comes_from_a_file_or_the_environment(tmp_path, monkeypatch, text, seed):
    (tmp_path / "seed").write_text(text)
    for file in (tmp_path / "seed", None):
        monkeypatch.setenv("GRADER_SEED", text)
        if seed == "refused" or (file and not text):  # a file that was given is meant to have one
            with pytest.raises(GraderError, match="must be a whole number") as error:
                hidden_seed(file)
            assert not text or text not in str(error.value)
        else:
            assert hidden_seed(file) == seed


def run_in_child(options: Options) -> subprocess.Popen[bytes]:
    program = (
        "import sys; from pathlib import Path, PosixPath; from rich.console import Console\n"
        "from grader.batch.run import Options, grade_class\n"
        f"sys.exit(grade_class({options!r}, Console()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-P", "-c", program], cwd=ROOT, env=environment,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip


def test_kill_9_loses_nothing_and_grades_nothing_twice(options, tmp_path):
    for index in range(24):
        (options.submissions / f"s{index}").mkdir()
        (options.submissions / f"s{index}/gelu.py").write_text(f"# {index}\n")
    slow = replace(options, program=(*options.program, "--seconds", "0.1"))
    for killed, after in enumerate((1, 9, 17)):
        process = run_in_child(slow)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            log = (tmp_path / "log").read_text().splitlines() if (tmp_path / "log").exists() else []
            if len(log) >= after + killed:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.02)
        assert process.wait(60) == -signal.SIGKILL
        process.stderr.close()
        while time.monotonic() < deadline and _children_of(tmp_path):  # what it had begun ends by itself
            time.sleep(0.02)
    interrupted = Ledger.in_file(options.out / "ledger.sqlite")
    before = {(one.submission, one.exercise): one.earned for one in interrupted.grades()}
    interrupted.close()
    assert 0 < len(before) < 60
    status, asked = graded(slow)
    assert status == 0
    assert len(asked) == 30 - len(before) // 2  # what was in the ledger was not graded again
    resumed = gradebook(options.out)
    assert graded(replace(slow, out=tmp_path / "undisturbed"))[0] == 0
    assert resumed == gradebook(tmp_path / "undisturbed")
    ledger = Ledger.in_file(options.out / "ledger.sqlite")
    assert len(ledger.grades()) == 60
    assert before.items() <= {(one.submission, one.exercise): one.earned for one in ledger.grades()}.items()


def test_ctrl_c_keeps_what_was_graded_and_leaves_no_child(options, tmp_path):
    process = run_in_child(replace(options, program=(*options.program, "--seconds", "0.5")))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (
        (tmp_path / "log").exists() and len((tmp_path / "log").read_text().splitlines()) >= 3
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in told  # `grader batch` says it in one line
    ledger = Ledger.in_file(options.out / "ledger.sqlite")
    assert len(ledger.grades()) >= 2
    assert not _children_of(tmp_path)


def _children_of(folder: Path) -> list[str]:
    """Command lines of the processes that grade below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in found if str(folder) in line]


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """An `nvidia-smi` that lists two GPUs of a model."""

    def lists(*names: str) -> None:
        rows = "".join(f"{index}, GPU-{index}, {name}\n" for index, name in enumerate(names))
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/nvidia-smi").write_text(f"#!/bin/sh\nprintf '{rows}'\n")
        (tmp_path / "bin/nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    return lists


def test_each_gpu_slot_sees_its_gpu_and_the_model_belongs_to_the_key(options, driver):
    driver("NVIDIA H200", "NVIDIA H200")
    _, asked = graded(replace(options, gpus="auto", jobs=3))
    assert {line.split(" ", 1)[1] for line in asked} <= {"gelu softmax cuda:0", "gelu softmax cuda:1"}
    assert len(asked) == 6
    told = options.out.parent / "log.cmdline"
    assert b"--peer-times" in told.read_bytes()  # what PyTorch takes is timed once for the class
    assert len(graded(replace(options, gpus="1"))[1]) == 0
    assert len(graded(replace(options, gpus="none"))[1]) == 6  # a CPU is another device
    assert b"--peer-times" not in told.read_bytes()


def test_a_gpu_that_does_not_pass_its_health_check_is_quarantined(options, driver, capsys):
    driver("NVIDIA H200")
    (options.submissions / "ada/gelu.py").write_text("# die\n")
    status, _ = graded(replace(options, gpus="GPU-0", jobs=1, only=("ada",)))
    assert status == 1
    shown = capsys.readouterr().out
    assert "GPU-0 gets no more submissions: " in shown  # no machine has a GPU of this UUID: the check fails
    assert "no slot is left: 1 submissions are not graded; run the same command again" in shown


@pytest.mark.parametrize(
    ("names", "wanted", "says"),
    [(("NVIDIA H200",), "3", "there is no GPU '3'; nvidia-smi has 0, GPU-0"),
     (("NVIDIA H200", "NVIDIA A100"), "auto", "are different models .NVIDIA A100, NVIDIA H200.")],
)  # fmt: skip
def test_gpus_that_can_not_be_used_are_named(driver, names, wanted, says):
    driver(*names)
    with pytest.raises(GraderError, match=says):
        slots.find_gpus(wanted)


@pytest.mark.parametrize(("cores", "count"), [(2, 2), (16, 3), (2, 4), (16, 16), (5, 1)])
def test_slots_share_the_cores_evenly(cores, count):
    shares = [slots._share(list(range(cores)), index, count) for index in range(count)]
    assert all(shares)
    assert {core for share in shares for core in share} == set(range(cores))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_the_real_judge_grades_and_its_seed_is_hidden(options, tmp_path, monkeypatch):
    """The one test with real children: `pytest grader` on a right, a wrong and an empty submission."""
    # What staff set for pytests of their own is not for these.
    for name, value in (("ADDOPTS", "--unknown"), ("PLUGINS", "unknown"), ("DISABLE_PLUGIN_AUTOLOAD", "1")):
        monkeypatch.setenv(f"PYTEST_{name}", value)
    for name, source in (("ada", "gelu/right_flat.py"), ("alan", "gelu/forgot_half.py")):
        (options.submissions / name / "gelu.py").write_text((ROOT / "tests/submissions" / source).read_text())
    (options.submissions / "mary/gelu.py").unlink()
    real = replace(
        options,
        program=slots.PYTEST_GRADER,
        timeout_s=900,
        only=("ada", "alan", "mary"),
        exercises=("gelu",),
        seed=123456789,
    )
    assert grade_class(real, Console(width=200)) == 0
    rows = gradebook(options.out)
    assert (rows["ada"]["gelu"], rows["mary"]["gelu"]) == ("10", "0")
    assert (rows["ada"]["status"], rows["grace"]["status"], "softmax" in rows["ada"]) == (
        "graded", "not graded yet", False)  # fmt: skip
    assert rows["alan"]["gelu"] not in ("", "10")
    klass = load_class(options.out)
    assert klass is not None
    read = {row.entry.submission: row for row in book.read_book(klass, Ledger.in_file(options.out / "ledger.sqlite"))}
    result = read["ada"].result
    assert result is not None
    assert result.environment.seed == 123456789
    statuses = {item.status for item in read["mary"].result.exercises["gelu"].items}
    assert statuses == {"not_implemented"}
    pictures = [name for item in read["alan"].result.exercises["gelu"].items for name in item.pictures]
    assert pictures
    assert all((options.out / "results" / name).read_text().startswith("<svg") for name in pictures)
    feedback = (options.out / "feedback/alan.md").read_text()
    assert "reproduce: pytest grader --reproduce gelu/" in feedback
    told = [item.reproduce for item in read["alan"].result.exercises["gelu"].items if item.case]
    assert all(
        f"--submission {options.out / 'submissions/alan'} --rubric {options.rubric} --reproduce" in one for one in told
    )
    assert told
    assert str(tmp_path) not in feedback


def test_batch_says_which_extra_it_needs():
    program = (
        "import sys; sys.modules['sqlalchemy'] = None; sys.modules['copydetect'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('sqlalchemy', 'copydetect') else real(name, *a)\n"
        "from grader.cli import app; app(['batch', 'examples', '--out', '/nowhere'])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("error: grading a class needs sqlalchemy and copydetect: "
                           "pip install 'kernel-grader[staff]'\n")  # fmt: skip
