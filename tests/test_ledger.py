"""The ledger: nothing is lost or changed, writing twice changes nothing, and old ledgers come along."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sql
from hypothesis import given
from hypothesis import strategies as st

from grader.batch import ledger as ledgers
from grader.batch.keys import Key
from grader.batch.ledger import Grade, Hold, Ledger, Override
from grader.errors import GraderError


def grade(submission: str = "ada", exercise: str = "gelu", files: str = "1", earned: float = 5.0) -> Grade:
    key = Key({"files": files})
    return Grade(submission, exercise, key.sha256, dict(key.parts), earned, 10.0, 10.0, "{}", "cpu0")


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    if request.param == "sqlite":
        opened = Ledger.in_file(tmp_path / "ledger.sqlite")
    else:
        url = os.environ.get("GRADER_TEST_POSTGRES")  # a database whose tables may be dropped
        if url is None:
            pytest.skip("GRADER_TEST_POSTGRES is not set")
        engine = sql.create_engine(url)
        with engine.begin() as connection:
            ledgers._TABLES.drop_all(connection)
        engine.dispose()
        opened = Ledger(url)
    yield opened
    opened.close()


def test_a_grade_written_twice_is_there_once_as_it_was_first(ledger):
    ledger.record([grade(earned=5.0), grade(exercise="softmax")])
    ledger.record([grade(earned=9.0)])
    assert [(one.exercise, one.earned) for one in ledger.grades()] == [("gelu", 5.0), ("softmax", 5.0)]
    assert ledger.keys() == {("ada", name, Key({"files": "1"}).sha256) for name in ("gelu", "softmax")}


def test_a_new_key_adds_a_grade_and_keeps_the_old_one(ledger):
    ledger.record([grade(files="1", earned=5.0)])
    ledger.record([grade(files="2", earned=7.0)])
    assert [one.earned for one in ledger.grades()] == [5.0, 7.0]
    assert ledger.grades()[0].parts == {"files": "1"}


def test_overrides_and_holds_are_added_and_change_no_grade(ledger):
    ledger.record([grade()])
    before = ledger.grades()
    ledger.add_override(Override("ada", "gelu", 8.0, "appeal", "kim"))
    ledger.add_override(Override("ada", "gelu", None, "mistaken", "kim"))
    ledger.add_hold(Hold("ada", True, "talk first", "kim"))
    ledger.add_hold(Hold("bob", True, "talk first", "kim"))
    ledger.add_hold(Hold("bob", False, "done", "kim"))
    assert [(one.points, one.reason) for one in ledger.overrides()] == [(8.0, "appeal"), (None, "mistaken")]
    assert all(one.at for one in ledger.overrides())
    assert list(ledger.holds()) == ["ada"]
    assert ledger.grades() == before


def test_faults_and_the_hidden_seed_are_kept(ledger):
    assert ledger.hidden_seed() is None
    ledger.add_run(2**60, "x", "cpu")
    ledger.add_fault("ada", ("gelu",), "cpu0", "first")
    ledger.add_fault("ada", ("gelu",), "cpu1", "second")
    assert ledger.hidden_seed() == 2**60
    assert ledger.faults() == {"ada": "second"}


names = st.sampled_from(["ada", "bob"])
one_grade = st.builds(grade, names, st.sampled_from(["gelu", "softmax"]), st.sampled_from("123"), st.floats(0, 10))


@given(batches=st.lists(st.lists(one_grade, max_size=3), max_size=6), again=st.randoms())
def test_recording_is_idempotent_and_order_within_keys_is_first_come(tmp_path_factory, batches, again):
    opened = Ledger.in_file(tmp_path_factory.mktemp("ledger") / "l.sqlite")
    expected: dict[tuple[str, str, str], float] = {}
    for batch in batches:
        opened.record(batch)
        for one in batch:
            expected.setdefault((one.submission, one.exercise, one.key), one.earned)
    repeated = [one for batch in batches for one in batch]
    again.shuffle(repeated)
    opened.record(repeated)
    assert {(one.submission, one.exercise, one.key): one.earned for one in opened.grades()} == expected
    opened.close()


def test_what_is_acknowledged_survives_kill_9(tmp_path):
    program = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, "tests")
from test_ledger import grade
from grader.batch.ledger import Ledger
ledger = Ledger.in_file(Path(sys.argv[1]))
for number in range(20):
    ledger.record([grade(files=str(number))])
    print(number, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).parent.parent
    file = tmp_path / "l.sqlite"
    command = [sys.executable, "-P", "-c", program, str(file)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True,
                          timeout=120, check=False)  # fmt: skip
    assert done.returncode == -9, done.stderr
    ledger = Ledger.in_file(file)
    assert len(ledger.grades()) == len(done.stdout.split()) == 20
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    ledger.close()


def test_every_connection_is_durable(tmp_path):
    ledger = Ledger.in_file(tmp_path / "l.sqlite")
    with ledger._engine.connect() as connection:
        assert connection.execute(sql.text("PRAGMA synchronous")).scalar_one() == 2
    ledger.close()


def test_an_older_ledger_is_migrated_with_its_grades_and_a_newer_one_refused(tmp_path, monkeypatch):
    file = tmp_path / "l.sqlite"
    old = Ledger.in_file(file)
    old.record([grade()])
    old.close()

    def add_column(connection: sql.Connection) -> None:
        connection.execute(sql.text("ALTER TABLE grades ADD COLUMN tries INTEGER DEFAULT 1"))

    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "MIGRATIONS", [*ledgers.MIGRATIONS, add_column])
        for _ in range(2):  # the second time there is nothing to do
            new = Ledger.in_file(file)
            assert len(new.grades()) == 1
            new.close()
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT tries FROM grades").fetchall() == [(1,)]
    connection.close()
    with pytest.raises(GraderError, match="has schema 2, this grader knows 1; update the grader"):
        Ledger.in_file(file)


@pytest.mark.parametrize(
    ("url", "says"),
    [("nonsense", "is not a database URL"), ("mysql://x/y", "postgresql|is not|missing"),
     ("sqlite:////nowhere/at/all.sqlite", "can't be opened")],
)  # fmt: skip
def test_a_ledger_that_can_not_be_opened_says_why(url, says):
    with pytest.raises(GraderError, match=says):
        Ledger(url)


def test_a_file_that_is_no_ledger_says_so(tmp_path):
    (tmp_path / "l.sqlite").write_text("hello" * 1000)
    with pytest.raises(GraderError, match="not a database"):
        Ledger.in_file(tmp_path / "l.sqlite")
