"""A real submission that prints and raises what breaks formats, graded and then reported in each of them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from junitparser import JUnitXml
from typer.testing import CliRunner

from grader.cli import app
from grader.result import load_result

ROOT = Path(__file__).parent.parent.parent
RUBRIC = """\
schema: grader.rubric/1
title: Hostile
seed: 1
weights: {aligned: 1}
cases: {generated: 0, shrink_s: 0.1}
limits: {output_kib: 1}
source_rules: {enabled: false}
exercises: {softmax: {points: 1, dtypes: [float32]}, gelu: {points: 1, dtypes: [float32]}}
"""
PRINTS = r"""
import os
def softmax(x):
    os.write(1, b"<script>alert(1)</script>\x1b[31m\x00\xff\xfe\n::set-output name=a::b\n::error::owned\n```]]>\n")
    os.write(1, b"x" * 10_000_000)
    os._exit(3)
"""
RAISES = r"""
def gelu(x):
    nasty = "<img src=x onerror=alert(1)>\x1b[2J\n::set-output name=a::b\n \udcff\ud800 | ``` ]]> "
    raise ValueError(nasty + "y" * 100_000)
"""


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "rubric.yaml").write_text(RUBRIC)
    (folder / "student").mkdir()
    (folder / "student/softmax.py").write_text(PRINTS)
    (folder / "student/gelu.py").write_text(RAISES)
    options = ("--submission", "student", "--device", "cpu", "--rubric", "rubric.yaml", "--result", "result.json")
    paths = [str(folder / option) if "-" not in option and option != "cpu" else option for option in options]
    command = [sys.executable, "-P", "-m", "pytest", "grader", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=240, check=False)
    assert done.returncode == 1, done.stdout.decode(errors="replace")
    return folder


def test_its_result_is_whole(graded):
    found = load_result(graded / "result.json")
    softmax, gelu = (exercise.items[0] for exercise in found.exercises.values())
    assert softmax.status == "crashed"
    assert "::set-output name=a::b" in softmax.evidence["printed"]
    assert gelu.status == "raised"
    assert "<img src=x" in gelu.message
    assert " ?? | ```" in gelu.message.replace("\n", " ")
    assert (graded / "result.json").stat().st_size < 100_000


@pytest.mark.parametrize(
    "to", ["html", "gradescope", "prairielearn", "classroom50", "github", "junit", "csv", "markdown"]
)
@pytest.mark.parametrize("view", ["student", "staff"])
def test_no_format_breaks(graded, to, view):
    out = graded / f"{to}-{view}"
    options = ["--to", to, "--view", view, "--out", str(out), "--rubric", str(graded / "rubric.yaml")]
    done = CliRunner().invoke(app, ["report", str(graded / "result.json"), *options])
    assert done.exit_code == 0, done.output
    text = out.read_bytes().decode("utf-8")
    assert all(character.isprintable() or character == "\n" for character in text)
    assert len(text) < 100_000
    if to == "html":
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    elif to == "junit":
        assert [(suite.name, suite.failures) for suite in JUnitXml.fromstring(text.encode())] == [
            ("softmax", 1),
            ("gelu", 1),
        ]
    elif to == "csv":
        assert len(list(csv.reader(io.StringIO(text)))) == 3
    elif to in ("gradescope", "prairielearn", "classroom50"):
        assert len(json.loads(text)["tests"]) == 2
    elif to == "github":
        token = done.stdout.splitlines()[0].removeprefix("::stop-commands::")
        commands = [line for line in done.stdout.splitlines() if line.startswith("::")]
        assert commands[1] == f"::{token}::"
        assert all(line.startswith("::error ") for line in commands[2:])
        assert len(commands) == 4
