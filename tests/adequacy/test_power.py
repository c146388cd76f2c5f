"""Grading mutants: what is caught and what is not, weak rubrics, findings kept, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml

import reference
from grader.adequacy import examine as examining
from grader.adequacy.examine import Cache, Finding, examine
from grader.adequacy.mutants import Mutant, mutants_of, spread
from grader.adequacy.power import Plan, Power, kernel_exercises, measure, sorted_mutants
from grader.adequacy.report import as_json, good_enough
from grader.errors import SelectionError
from grader.machine import Machine
from grader.rubric import Limits, load_rubric
from tests.corpus import ROOT

pytestmark = pytest.mark.slow  # each grades for many seconds

LOADED = load_rubric(ROOT / "rubric.yaml")


@pytest.fixture(scope="module")
def machine():
    started = Machine(Limits(memory_mib=4096), "cpu")
    yield started
    started.close()


def rubric_with(tmp_path, **weights: int):
    """The rubric in one dtype, with only some checks."""
    document = yaml.safe_load((ROOT / "rubric.yaml").read_text())
    document |= {"dtypes": ["float16"], "weights": weights, "adequacy": {"share": 0.9, "mutants": 8}}
    document["cases"]["generated"] = 0
    kernels = kernel_exercises(LOADED, [])
    document["exercises"] = {name: document["exercises"][name] for name in kernels}
    for exercise in document["exercises"].values():
        exercise.pop("speed", None)
    path = tmp_path / "rubric.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def one(exercise: str, mutator: str, after: str) -> Mutant:
    """The mutant of a solution with this change."""
    (found,) = [m for m in sorted_mutants(ROOT, exercise).to_grade if m.mutator == mutator and after in m.after]
    return found


def test_a_fault_is_caught_and_the_unchanged_solution_is_not(tmp_path, machine):
    loaded = load_rubric(rubric_with(tmp_path, aligned=1, ragged=1))
    mutant = one("row_sum", "half_mask", "mask = (rows[:, None] < M)")
    finding = examine(mutant, loaded, machine)
    assert finding.caught
    assert (finding.check, finding.dtype, finding.status) == ("ragged", "float16", "out_of_bounds")
    assert finding.cases == finding.cases_in_all == 3  # [1, 1] and [2, 1] have no second column
    unchanged = examine(replace(mutant, source=mutant.original), loaded, machine)
    assert not unchanged.caught
    assert unchanged.fault_of_the_grader == ""
    listed = [*reference.load("row_sum").edge_cases("aligned"), *reference.load("row_sum").edge_cases("ragged")]
    assert unchanged.cases_in_all == 2 * len(listed)


@pytest.mark.slow
def test_without_ragged_sizes_faults_at_edges_pass_and_are_named(tmp_path, machine):
    plan = Plan(["row_sum"], most=12)
    (strong,) = measure(ROOT, load_rubric(rubric_with(tmp_path, aligned=1, ragged=1)), machine, plan, None)
    (weak,) = measure(ROOT, load_rubric(rubric_with(tmp_path, aligned=1)), machine, plan, None)
    assert weak.share < strong.share
    assert not good_enough([weak], 0.9)
    now = {mutant.mutator for mutant, _ in weak.survivors} - {mutant.mutator for mutant, _ in strong.survivors}
    assert now >= {"comparison", "change_other", "floor_division"}


def test_findings_are_kept_until_something_that_they_depend_on_changes(tmp_path, machine, monkeypatch):
    loaded = load_rubric(rubric_with(tmp_path, ragged=1))
    plan = Plan(["gelu"], most=2)
    (first,) = measure(ROOT, loaded, machine, plan, Cache(tmp_path / "kept", ROOT, loaded))
    closed = Machine(Limits(), "cpu")
    closed.close()
    monkeypatch.setattr("grader.adequacy.power.examine", None)  # a call would fail
    (second,) = measure(ROOT, loaded, closed, plan, Cache(tmp_path / "kept", ROOT, loaded))
    assert second == first
    other = load_rubric(rubric_with(tmp_path, ragged=1, aligned=1))
    assert all(Cache(tmp_path / "kept", ROOT, other).get(mutant) is None for mutant, _ in first.findings)


def test_faults_of_the_grader_are_not_kept_and_count_neither_way(tmp_path):
    mutant = mutants_of("gelu", (ROOT / "reference/solutions/gelu.py").read_text())[0]
    cache = Cache(tmp_path, ROOT, LOADED)
    broken = Finding(caught=False, fault_of_the_grader="no worker")
    cache.put(mutant, broken)
    assert cache.get(mutant) is None
    power = Power("gelu", 2, [(mutant, broken), (mutant, Finding(caught=True))], [], [])
    assert power.share == 1.0
    assert not good_enough([power], 0.5)


def test_a_mutant_that_hangs_is_caught(tmp_path, machine, monkeypatch):
    monkeypatch.setattr(examining, "CASE_TIMEOUT_S", 1.0)
    mutant = mutants_of("gelu", (ROOT / "reference/solutions/gelu.py").read_text())[0]
    endless = replace(mutant, source="import torch\n\ndef gelu(x):\n    while True: pass\n")
    finding = examine(endless, load_rubric(rubric_with(tmp_path, ragged=1)), machine)
    assert (finding.caught, finding.status) == (True, "timed_out")


# What is marked passes everything, which takes a while: a few of them, on listed cases in one dtype.
# `grader adequacy --equivalent` grades them all.
@pytest.mark.slow
@pytest.mark.parametrize("exercise", kernel_exercises(LOADED, []))
def test_marked_mutants_pass_the_listed_cases(exercise: str, machine, tmp_path):
    checks = dict.fromkeys(("ragged", "strided"), 1)
    if exercise in ("rmsnorm", "flash_attention"):
        checks["gradient"] = 1
    loaded = load_rubric(rubric_with(tmp_path, **checks))
    some = spread([mutant for mutant, _ in sorted_mutants(ROOT, exercise).marked], 3)
    assert len(some) == 3
    wrong = {mutant.diff: finding.message for mutant in some
             if (finding := examine(mutant, loaded, machine)).caught}  # fmt: skip
    assert wrong == {}


def test_exercises_of_another_kind_are_left_out(monkeypatch):
    def load(name: str):
        if name == "gelu":
            raise KeyError("'gelu' is no exercise in writing kernels")
        return original(name)

    original = reference.load
    monkeypatch.setattr("grader.adequacy.power.reference.load", load)
    assert "gelu" not in kernel_exercises(LOADED, [])
    assert "softmax" in kernel_exercises(LOADED, [])
    with pytest.raises(SelectionError, match="no such exercise; it has gelu, softmax"):
        kernel_exercises(LOADED, ["tanh"])


def test_the_report_names_survivors_with_their_diff():
    mutant = mutants_of("gelu", (ROOT / "reference/solutions/gelu.py").read_text())[0]
    report = as_json([Power("gelu", 9, [(mutant, Finding(caught=False, cases_in_all=4))], [], [])], 0.99)
    assert report["good_enough"] is False
    assert report["exercises"]["gelu"]["share"] == 0.0
    (survivor,) = report["exercises"]["gelu"]["survivors"]
    assert survivor["diff"].startswith("@@ -") and mutant.after.split()[0] in survivor["diff"]  # noqa: PT018


def adequacy(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "grader.cli", "adequacy", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_the_command_fails_below_the_bar_and_says_which_faults_pass(tmp_path):
    output = tmp_path / "adequacy.json"
    done = adequacy("gelu", "--rubric", str(rubric_with(tmp_path, aligned=1)), "--json", str(output),
                    "--cache", str(tmp_path / "kept"), "--jobs", "2")  # fmt: skip
    assert done.returncode == 1, done.stderr
    found = json.loads(output.read_text())
    assert found["exercises"]["gelu"]["graded"] == 8
    survivor = found["exercises"]["gelu"]["survivors"][0]
    assert f"gelu, line {survivor['line']}, {survivor['mutator']}: passes every check" in done.stdout
    assert "of the faults are caught, the rubric asks for 90.0%" in done.stdout


def test_the_command_names_an_unknown_exercise():
    done = adequacy("tanh")
    assert done.returncode == 2
    assert "error: tanh: the rubric has no such exercise" in done.stdout
