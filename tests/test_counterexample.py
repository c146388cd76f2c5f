"""Where wrong elements are: words, the map of characters, the picture, and the script for a debugger."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch

from grader.compare import is_right
from grader.counterexample import Grid, grid_of, heat_map, where_wrong
from grader.report import attachments, picture
from grader.report.script import debug_script
from grader.verdict import Status, Verdict
from reference.exercise import Case
from tests.corpus import FOLDER, ROOT, rubric_for

RMSNORM = (
    "rmsnorm/gradient/float32/x:3x5:normal:contiguous,weight:5:normal:contiguous,dout:3x5:normal:contiguous/0/eps=1e-05"
)
SVG = "{http://www.w3.org/2000/svg}"


def wrong_at(shape: tuple[int, ...], *places) -> torch.Tensor:
    wrong = torch.zeros(shape, dtype=torch.bool)
    for place in places:
        wrong[place] = True
    return wrong


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            wrong_at((4, 1027), (slice(None), slice(1024, None))),
            "columns 1024–1026 of every row, the last partial block",
        ),
        (wrong_at((4, 64), (slice(None), slice(32, None))), "columns 32–63 of every row, the end"),
        (wrong_at((5, 3), 4), "row 4 of every column, the last partial block"),
        (wrong_at((70,), slice(64, None)), "elements 64–69, the last partial block"),
        (wrong_at((9,), 2), "element 2"),
        (wrong_at((8, 8), (slice(None), slice(0, None, 4)), (slice(None), 6)), "columns 0, 4, 6 of every row"),
        (wrong_at((8, 16), (slice(None), slice(1, None, 5))), "columns 1, 6, … 11 of every row"),
        (wrong_at((6, 6), (slice(2, 4), slice(1, 3))), "rows 2–3 and columns 1–2"),
        (wrong_at((6, 6), (0, 1), (2, 3)), "2 of 36 elements in rows 0, 2 and columns 1, 3"),
        (wrong_at((2, 2), (0, 0), (1, 1)), "2 of 4 elements, in all parts of it"),
        (wrong_at((2, 3, 20), (slice(None), slice(None), slice(16, None))), "axis 2 16–19, the last partial block"),
        (wrong_at((3, 4), slice(None)), "every element is wrong"),
    ],
)
def test_places_in_words(wrong, words):
    assert where_wrong(wrong) == words


def grid(seen: torch.Tensor, expected: torch.Tensor, allowed: float, most=(12, 64)) -> Grid:
    bound = torch.full_like(expected, allowed)
    return grid_of(seen, expected, bound, is_right(seen, expected, bound), most)


def test_the_map_shows_how_far_off_each_element_is():
    expected = torch.zeros(2, 5, dtype=torch.float64)
    seen = torch.tensor([[0, 5e-3, 0.5, 5e2, 5e4], [1e-3, torch.nan, torch.inf, 0, 0]], dtype=torch.float64)
    *rows, meaning = heat_map(grid(seen, expected, 1e-3))
    assert rows == ["·░▒▓█", "·N∞··"]
    assert meaning.startswith("· right, ░ ≤ 10 × what is allowed, ▒")


def test_a_large_output_is_shown_by_the_worst_of_each_tile():
    expected = torch.zeros(100, 640, dtype=torch.float64)
    seen = expected.clone()
    seen[57, 333] = torch.nan
    *rows, meaning = heat_map(grid(seen, expected, 1e-3))
    assert len(rows) == 12
    assert {len(row) for row in rows} == {64}
    assert [(r, row.index("N")) for r, row in enumerate(rows) if "N" in row] == [(57 // 9, 33)]
    assert meaning.endswith("a character is the worst of 9 × 10 elements")


def test_a_vector_is_shown_in_lines():
    expected = torch.zeros(100, dtype=torch.float64)
    seen = expected.clone()
    seen[70] = 1
    assert heat_map(grid(seen, expected, 1e-3))[:2] == ["·" * 64, "·" * 6 + "▒" + "·" * 29 + " " * 28]


def test_the_picture_has_three_panels_with_the_wrong_cells_where_they_are():
    expected = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    seen = expected.clone()
    seen[:, 3] = torch.nan
    root = ET.fromstring(picture.svg(grid(seen, expected, 1e-3, picture.MOST), "out of <x>", "columns 3 of every row"))
    panels = root.findall(f"{SVG}g")
    assert len(panels) == 3
    paths = [{path.get("fill"): path.get("d") for path in panel.findall(f"{SVG}path")} for panel in panels]
    assert paths[1][picture.NAN] == "M3 0h1v1h-1zM3 1h1v1h-1zM3 2h1v1h-1z"
    assert picture.NAN not in paths[0]
    assert paths[2][picture.RIGHT] == "M0 0h3v1h-3zM0 1h3v1h-3zM0 2h3v1h-3z"
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "out of <x>" in texts
    assert any("columns 3 of every row" in text for text in texts)


def test_a_picture_stays_small():
    generator = torch.Generator().manual_seed(0)
    seen, expected = (torch.randn(1000, 1000, generator=generator, dtype=torch.float64) for _ in range(2))
    assert len(picture.svg(grid(seen, expected, 1e-3, picture.MOST), "", "")) < 250_000


def script_for(tmp_path: Path, case: str, file: str, message: str = "as it was") -> Path:
    exercise = case.partition("/")[0]
    rubric = rubric_for(exercise, file).rubric
    path = tmp_path / "debug.py"
    path.write_text(
        debug_script(Verdict(Status.WRONG_VALUES, message, case=case), rubric.tolerance_for(Case.parse(case)),
                     FOLDER / exercise / file, exercise, ROOT, script=path, tf32=rubric.tf32_of(exercise))
    )  # fmt: skip
    return path


def run(*arguments: object, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TRITON_INTERPRET")}
    return subprocess.run([sys.executable, "-P", *map(str, arguments)], cwd=cwd, env=environment, input=stdin,
                          capture_output=True, text=True, timeout=300, check=False)  # fmt: skip


@pytest.mark.parametrize(
    ("case", "file", "says"),
    [
        ("softmax/ragged/float32/x:3x7:normal:contiguous/2", "zero_padding.py", r"out\[0, 0\] = 0.161103, expected"),
        ("row_sum/strided/bfloat16/x:5x33:normal:transposed/1", "right_loop.py", "^right"),
        ("row_sum/ragged/float32/x:3x7:normal:contiguous/2", "no_load_mask.py", r"load_mask.py:\d+: load outside 'x_"),
        (RMSNORM, "dx_without_mean.py", r"dx\["),
    ],
)  # fmt: skip
def test_the_script_shows_the_failure_without_the_grader(tmp_path, case, file, says):
    done = run(script_for(tmp_path, case, file, 'a """ message \\ of the submission'), cwd=tmp_path)
    assert re.search(says, done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert done.returncode == (0 if says == "^right" else 1)
    assert done.stdout.strip().endswith("right" if says == "^right" else "wrong")


def test_a_debugger_stops_inside_the_kernel(tmp_path):
    file = FOLDER / "softmax/zero_padding.py"
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if text.strip().startswith("m_new"))
    script = script_for(tmp_path, "softmax/ragged/float32/x:3x7:normal:contiguous/2", file.name)
    done = run("-m", "pdb", script, cwd=tmp_path, stdin=f"b {file}:{line}\nc\np 'columns', N, BLOCK\np x\nq\n")
    assert f"zero_padding.py({line})" in done.stdout, done.stdout + done.stderr
    assert "'columns'" in done.stdout


def test_attachments_of_an_earlier_run_go(tmp_path):
    folder = attachments.folder_of(tmp_path / "result.json")
    assert folder == tmp_path / "result-files"
    attachments.save(folder, {"softmax-ragged-float32": {"svg": "<svg/>", "py": "pass"}, "gelu-ragged-float32": {}})
    assert sorted(path.name for path in folder.iterdir()) == ["softmax-ragged-float32.py", "softmax-ragged-float32.svg"]
    attachments.save(folder, {"softmax-ragged-float32": {"py": "pass"}})
    assert [path.name for path in folder.iterdir()] == ["softmax-ragged-float32.py"]
