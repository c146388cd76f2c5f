"""docs/new-exercise.md, followed for `layer_norm`: from three places to one that is adequate and released."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from grader.result import load_result
from tests.release.course import ROOT, copy_course, grader, run

FIXTURE = ROOT / "tests/release/layer_norm"
GUIDE = (ROOT / "docs/new-exercise.md").read_text()
FILES = ("reference/layer_norm.py", "reference/solutions/layer_norm.py")
# Of the course's own tests, those that go through all exercises.
OVER_ALL = "the_rubric_of_the_repository or every_pitfall or are_enough_right or test_starters"


def state(course: Path) -> dict[str, str]:
    files = [path for path in course.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(course).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the course with layer_norm in its three places, and the starters cut."""
    course = copy_course(tmp_path_factory.mktemp("course"))
    shutil.copy(ROOT / "rubric.yaml", course)
    before = state(course)
    for name in FILES:
        shutil.copy(FIXTURE / name, course / name)
    with (course / "rubric.yaml").open("a") as file:
        file.write((FIXTURE / "rubric.yaml").read_text())
    done = run(sys.executable, "-P", "-m", "grader.release.starters", cwd=course, PYTHONPATH=str(course))
    assert done.returncode == 0, done.stderr
    after = state(course)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed == {*FILES, "rubric.yaml", "student/layer_norm.py"}
    return course


def graded(course: Path, folder: Path, submission: str):
    """The result of grading layer_norm, and what was printed."""
    result = folder / "result.json"
    done = run(sys.executable, "-P", "-m", "pytest", "grader", "--exercise", "layer_norm", "--submission", submission,
               "--device", "cpu", "--result", result, cwd=course, PYTHONPATH=str(course))  # fmt: skip
    assert result.is_file(), done.stdout + done.stderr
    return load_result(result), done.stdout


def test_the_guides_code_is_the_fixtures():
    sources = {"python": [(FIXTURE / name).read_text() for name in FILES],
               "yaml": [(FIXTURE / "rubric.yaml").read_text()]}  # fmt: skip
    blocks = re.findall(r"^```(python|yaml)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    for language, block in blocks:
        assert any(block in source for source in sources[language]), block
    assert any(block == (FIXTURE / FILES[1]).read_text() for _, block in blocks)


def test_the_fixture_is_not_in_the_repositorys_places():
    assert not any((ROOT / name).exists() for name in FILES)


@pytest.mark.slow
def test_the_starter_is_not_implemented_and_the_solution_passes(course, tmp_path):
    starter, _ = graded(course, tmp_path, "student")
    assert {item.status for item in starter.exercises["layer_norm"].items} == {"not_implemented"}
    solution, printed = graded(course, tmp_path, "reference/solutions")
    assert {item.status for item in solution.exercises["layer_norm"].items} == {"passed"}, printed
    assert solution.totals.earned == pytest.approx(30) == solution.totals.maximum


@pytest.mark.slow
def test_a_wrong_kernel_gets_the_hint_of_its_mistake(course, tmp_path):
    text = (FIXTURE / FILES[1]).read_text()
    assert text.count(" * weight + bias") == 1
    (tmp_path / "layer_norm.py").write_text(text.replace(" * weight + bias", " * weight"))
    result, printed = graded(course, tmp_path, str(tmp_path))
    hints = re.search(r"`(hint: [^`]*the bias is missing\.)`", GUIDE)
    assert hints[1] in " ".join(printed.split())
    wrong = [item for item in result.exercises["layer_norm"].items if item.check in ("aligned", "ragged", "extreme")]
    assert {item.status for item in wrong} == {"wrong_values"}
    assert {item.pitfall for item in wrong} == {""}  # the page needs no section for it


@pytest.mark.slow
def test_it_is_adequate(course):
    done = grader(course, "adequacy", "layer_norm")
    assert done.returncode == 0, done.stdout + done.stderr
    row = re.search(r"│ layer_norm │ (\d+ of \d+) │ +(\d+) │ +([\d.]+%)", done.stdout)
    assert row[0] in GUIDE
    assert row[3] == "100.0%"


@pytest.mark.slow
def test_it_can_be_handed_out(course, tmp_path):
    rubric = yaml.safe_load((course / "rubric.yaml").read_text())
    rubric["exercises"] = {"layer_norm": rubric["exercises"]["layer_norm"]}
    del rubric["weights"]["gradient"]  # none of these exercises has it
    path = tmp_path / "rubric.yaml"
    path.write_text(yaml.safe_dump(rubric))
    done = grader(course, "release", "--check", "--rubric", path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("the solutions earn 30 of the 30 points that need no GPU\n")


@pytest.mark.slow
def test_the_courses_own_tests_need_no_fourth_place(course):
    shutil.copytree(ROOT / "tests", course / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    names = [
        f"tests/{name}.py" for name in ("test_rubric", "test_pitfalls", "test_submissions", "release/test_starters")
    ]
    done = run(sys.executable, "-P", "-m", "pytest", *names, "-q", "-k", OVER_ALL, cwd=course, PYTHONPATH=str(course))
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 10
