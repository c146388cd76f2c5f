"""A class of six, graded by fast children: for tests of `grader batch` and its book."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from rich.console import Console

from grader.batch.run import Options, grade_class

ROOT = Path(__file__).parent.parent
CHILD = (sys.executable, str(Path(__file__).with_name("batch_child.py")))


def rubric(path: Path, gelu: str = "points: 10") -> Path:
    path.write_text(
        "schema: grader.rubric/1\ntitle: Short\nseed: 1\nweights: {aligned: 1, ragged: 1}\ndtypes: [float32]\n"
        "cases: {generated: 1, budget_s: 5, case_timeout_s: 5}\n"
        f"exercises: {{gelu: {{{gelu}}}, softmax: {{points: 10}}}}\n"
    )
    return path


def six_submissions(tmp_path: Path) -> Options:
    """Six submissions, graded by fast children on two slots."""
    for index, name in enumerate(("ada", "alan", "grace", "katherine", "linus", "mary")):
        (tmp_path / "class" / name).mkdir(parents=True)
        for exercise in ("gelu", "softmax"):
            (tmp_path / "class" / name / f"{exercise}.py").write_text(f"# {exercise} {index}\n")
    program = (*CHILD, "--log", str(tmp_path / "log"))
    return Options(tmp_path / "class", tmp_path / "out", ROOT, rubric(tmp_path / "rubric.yaml"), gpus="none", jobs=2,
                   unsafe=True, program=program, timeout_s=60)  # fmt: skip


def graded(options: Options, capsys: pytest.CaptureFixture[str] | None = None) -> tuple[int, list[str]]:
    """Run; gives the status and what the children were asked to grade."""
    log = options.out.parent / "log"
    log.unlink(missing_ok=True)
    status = grade_class(options, Console(width=200))
    return status, sorted(log.read_text().splitlines()) if log.exists() else []


def gradebook(out: Path) -> dict[str, dict[str, str]]:
    with (out / "gradebook.csv").open(newline="") as file:
        return {row["name"] or row["submission"]: row for row in csv.DictReader(file)}
