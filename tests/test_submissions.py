"""Every submission of the corpus gets the status that it deserves, check by check and dtype by dtype."""

from __future__ import annotations

import pytest

from grader.rubric import Limits
from grader.zygote import Zygote
from tests.corpus import ROOT, Entry, entries, grade

ENTRIES = list(entries())


@pytest.fixture(scope="module")
def zygote():
    started = Zygote(Limits(memory_mib=4096))
    yield started
    started.close()


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.folder.parent.name != "misbehaving"], ids=str)
def test_a_submission_gets_its_status(entry: Entry, zygote: Zygote):
    verdicts = grade(entry, zygote, generated=6, shrink_s=0.3)
    wrong = {
        key: f"{verdict.status}: {verdict.message}, expected {' or '.join(entry.expected[key])}"
        for key, verdict in verdicts.items()
        if verdict.status not in entry.expected[key]
    }
    assert not wrong, "\n".join(f"{check} {dtype}: {text}" for (check, dtype), text in wrong.items())


def test_there_are_enough_right_and_wrong_ones():
    for exercise in ("gelu", "softmax", "row_sum", "matmul_relu"):
        of_exercise = [e for e in ENTRIES if e.folder.name == exercise]
        right = [e for e in of_exercise if all(status == ("passed",) for status in e.expected.values())]
        assert len(right) >= 2
        assert len(of_exercise) - len(right) >= 8


def test_every_file_is_listed_and_every_listed_file_exists():
    listed = {e.folder / e.file for e in ENTRIES}
    assert all(path.is_file() for path in listed)
    folders = {e.folder for e in ENTRIES if e.folder.parent.name != "misbehaving"}
    present = {path for folder in folders for path in folder.glob("*.py")}
    assert present <= listed, [str(path.relative_to(ROOT)) for path in present - listed]


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.folder.parent.name == "misbehaving"], ids=str)
def test_a_misbehaving_submission_gets_its_status_and_harms_nothing(entry: Entry, zygote: Zygote):
    verdicts = grade(entry, zygote, ["float32"], generated=0, shrink_s=0.1, case_timeout_s=2)
    wrong = {key: v for key, v in verdicts.items() if v.status not in entry.expected[key]}
    assert not wrong, "\n".join(f"{key}: {v.status}: {v.message}" for key, v in wrong.items())
    after = next(e for e in ENTRIES if e.name == "right_online")
    assert grade(after, zygote, ["float32"], generated=0)["ragged", "float32"].status == "passed"
