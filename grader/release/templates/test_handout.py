"""Quick tests of the handout itself: is it whole, and does this machine have what it needs?"""

import ast
import hashlib
from pathlib import Path

import pytest

import grader
import reference
from grader.judging import default_root
from grader.protected import read_manifest
from grader.rubric import load_rubric

ROOT = Path(__file__).parent.parent
RUBRIC = load_rubric(ROOT / "rubric.yaml").rubric


def test_the_grader_is_the_one_of_this_folder():
    assert Path(grader.__file__).parent.parent == ROOT
    assert default_root() == ROOT


@pytest.mark.parametrize("exercise", RUBRIC.exercises)
def test_an_exercise_has_its_reference_and_its_file(exercise):
    assert reference.find(exercise).id == exercise
    ast.parse((ROOT / "student" / RUBRIC.file_of(exercise)).read_text("utf-8"))


def test_no_solution_is_here():
    assert not (ROOT / "reference" / "solutions").exists()


def test_nothing_but_the_exercises_was_changed():
    for name, digest in read_manifest(ROOT).items():
        assert hashlib.sha256((ROOT / name).read_bytes()).hexdigest() == digest, name
