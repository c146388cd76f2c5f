"""Every submission of the corpus gets the status that it deserves, check by check and dtype by dtype."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

import reference
from grader.machine import Machine
from reference.exercise import DTYPES
from tests.corpus import CHECKS, ROOT, Entry, compile_small_cases, entries, grade

ENTRIES = list(entries())
# Whose pitfall no hint names: nothing proves it.
UNNAMED = ("flash_attention-nan_where_no_key_is_seen",)
FIRST = "float16"
WITHOUT_COMPILING = [check for check in CHECKS if check != "compiles"]


def graded() -> Iterator[ParameterSet]:
    """Each entry in one dtype, or in all where they differ.

    Slow: the other dtypes, three of four wrong entries, and of attention's right ones too.
    """
    for number, entry in enumerate(ENTRIES):
        if entry.folder.parent.name == "misbehaving" or entry.exercise not in reference.kernel_exercise_ids():
            continue
        differ = any(statuses != entry.expected[check, FIRST] for (check, _), statuses in entry.expected.items())
        # Interpreting attention is slow: what is wrong with one in one dtype.
        attention = entry.exercise == "flash_attention"
        first = list(DTYPES) if differ and not attention else [FIRST]
        left_out = number % 4 and (attention or not entry.right)
        yield pytest.param(entry, first, id=str(entry), marks=[pytest.mark.slow] if left_out else [])
        others = [dtype for dtype in DTYPES if dtype not in first]
        if others and (entry.right or not attention):
            yield pytest.param(entry, others, id=f"{entry}-{'-'.join(others)}", marks=pytest.mark.slow)


@pytest.mark.parametrize(("entry", "dtypes"), list(graded()))
def test_a_submission_gets_its_status(entry: Entry, dtypes: list[str], machine: Machine):
    verdicts = grade(entry, machine, dtypes, WITHOUT_COMPILING, generated=4, shrink_s=0.01)
    if FIRST in dtypes:
        # Compiling is slow: in one dtype, and on every case only where expected.yaml says something about it.
        if entry.states_compiles:
            verdicts |= grade(entry, machine, [FIRST], ["compiles"])
        elif (compiled := compile_small_cases(entry, machine, FIRST, target=90)) is not None:
            verdicts["compiles", FIRST] = compiled
    wrong = {
        key: f"{verdict.status}: {verdict.message}, expected {' or '.join(entry.expected[key])}"
        for key, verdict in verdicts.items()
        if verdict.status not in entry.expected[key]
    }
    assert not wrong, "\n".join(f"{check} {dtype}: {text}" for (check, dtype), text in wrong.items())
    named = {verdict.pitfall for verdict in verdicts.values()} - {""}
    assert named <= set(entry.pitfalls), f"the pitfall is {entry.pitfalls or 'none that is known'}, hints name {named}"
    assert FIRST not in dtypes or bool(named) == bool(entry.pitfalls) or str(entry) in UNNAMED


def test_most_pitfalls_are_named():
    with_pitfall = [e for e in ENTRIES if e.pitfalls]
    assert len(with_pitfall) >= 70
    assert len(UNNAMED) <= 0.1 * len(with_pitfall)
    assert set(UNNAMED) <= {str(e) for e in with_pitfall}


def test_there_are_enough_right_and_wrong_ones():
    """Of every exercise that has any; what the checks of a new one catch is counted by `grader adequacy`."""
    exercises = {e.folder.name for e in ENTRIES} & set(reference.exercise_ids())
    assert len(exercises) >= 7
    for exercise in exercises:
        of_exercise = [e for e in ENTRIES if e.folder.name == exercise]
        right = [e for e in of_exercise if all(status == ("passed",) for status in e.expected.values())]
        assert len(right) >= 2
        assert len(of_exercise) - len(right) >= 8


def test_there_are_enough_that_fail_compiles_or_fused_only():
    for check, status, least in (("compiles", "compile_failed", 8), ("fused", "too_slow", 6)):
        only = [
            e
            for e in ENTRIES
            if all(statuses == ("passed",) for (other, _), statuses in e.expected.items() if other != check)
            and e.expected.get((check, "float16")) == (status,)
        ]
        assert len({e.exercise for e in only}) >= 4
        assert len(only) >= least


def test_every_file_is_listed_and_every_listed_file_exists():
    listed = {e.folder / e.file for e in ENTRIES}
    assert all(path.is_file() for path in listed)
    folders = {e.folder for e in ENTRIES if e.folder.parent.name != "misbehaving"}
    present = {path for folder in folders for path in folder.glob("*.py")}
    assert present <= listed, [str(path.relative_to(ROOT)) for path in present - listed]


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.folder.parent.name == "misbehaving"], ids=str)
def test_a_misbehaving_submission_gets_its_status_and_harms_nothing(entry: Entry, machine: Machine):
    hangs = any("timed_out" in statuses for statuses in entry.expected.values())
    timeout_s = 2 if hangs else 30  # a short one says "timed out" of whatever runs on a busy machine
    checks = WITHOUT_COMPILING[:1] if hangs else WITHOUT_COMPILING  # each of them waits for the time limit
    verdicts = grade(entry, machine, ["float32"], checks, generated=0, shrink_s=0.01, case_timeout_s=timeout_s)
    wrong = {key: v for key, v in verdicts.items() if v.status not in entry.expected[key]}
    assert not wrong, "\n".join(f"{key}: {v.status}: {v.message}" for key, v in wrong.items())
    after = next(e for e in ENTRIES if e.name == "right_online")
    assert grade(after, machine, ["float32"], ["ragged"], generated=0)["ragged", "float32"].status == "passed"
