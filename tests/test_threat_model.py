"""docs/threat-model.md names only tests and attempts that exist, and every way to cheat has one."""

from __future__ import annotations

import ast
import re

import yaml

from tests.corpus import ROOT

TEXT = (ROOT / "docs/threat-model.md").read_text()
CPU = yaml.safe_load((ROOT / "tests/exploits/cpu/expected.yaml").read_text())
GPU = yaml.safe_load((ROOT / "tests/exploits/gpu/expected.yaml").read_text())
# Every row of the table of ways: its number and what it was tried by.
ROWS = {int(number): tried for number, tried in re.findall(r"^\| (\d+) \|.*\| (.*) \|$", TEXT, re.MULTILINE)}
ON_THE_CLOCK = range(1, 14)
ARCHIVES = 34


def test_every_test_it_names_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 20
    for file, function in named:
        functions = {node.name for node in ast.parse((ROOT / file).read_text()).body if hasattr(node, "name")}
        assert function in functions, f"{file} has no {function}"


def test_every_promise_has_a_test():
    promises = TEXT.partition("## Promises")[2].partition("##")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ")][1:]
    assert rows
    assert all("::test_" in row.split("|")[2] for row in rows)


def test_every_way_is_listed_and_has_an_attempt_or_a_test():
    assert sorted({*ROWS, ARCHIVES}) == list(range(1, 36))
    for number, tried in ROWS.items():
        for name in re.findall(r"`(\w+)`", tried):
            if number in ON_THE_CLOCK:
                assert name in GPU["attempts"], name
            else:
                assert number in CPU["attempts"][name]["classes"], name
        assert "`" in tried


def test_every_attempt_belongs_to_a_way():
    for name, facts in (CPU["attempts"] | CPU["rules_only"]).items():
        assert set(facts["classes"]) <= set(ROWS), name


def test_what_only_rules_stand_against_is_among_what_is_not_promised():
    not_promised = TEXT.partition("## What is not promised")[2]
    assert all(f"`{name}`" in not_promised for name in CPU["rules_only"])
    assert all(f"L{level}" in not_promised for level in range(4))
