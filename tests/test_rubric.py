"""The rubric: what it says is used, and what is wrong with it is said with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

import reference
from grader.compare import default_tolerance
from grader.errors import RubricError
from grader.rubric import load_rubric

GOOD = """\
schema: grader.rubric/1
title: Test
seed: 7
weights: {aligned: 1, ragged: 3}
exercises:
  gelu: {points: 10}
  softmax:
    points: 30
    file: attention/my_softmax.py
    entry: Softmax
    weights: {ragged: 0, extreme: 2}
    dtypes: [float32]
    tolerances:
      float32: {rtol: 0.5}
"""


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "rubric.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_rubric_of_the_repository_is_good():
    rubric = load_rubric(Path(__file__).parent.parent / "rubric.yaml").rubric
    assert set(rubric.exercises) == set(reference.exercise_ids())


def test_exercises_override_the_defaults(tmp_path):
    rubric = load_rubric(write(tmp_path, GOOD)).rubric
    assert rubric.weights_of("gelu") == {"aligned": 1, "ragged": 3}
    assert rubric.weights_of("softmax") == {"aligned": 1, "extreme": 2}
    assert rubric.dtypes_of("gelu") == ("float32", "float16", "bfloat16")
    assert rubric.dtypes_of("softmax") == ("float32",)
    assert (rubric.file_of("gelu"), rubric.entry_of("gelu")) == ("gelu.py", "gelu")
    assert (rubric.file_of("softmax"), rubric.entry_of("softmax")) == ("attention/my_softmax.py", "Softmax")


def test_a_tolerance_exception_replaces_only_what_it_names(tmp_path):
    rubric = load_rubric(write(tmp_path, GOOD)).rubric
    derived = default_tolerance("float32", 100, tf32=False)
    given = rubric.tolerance_of("softmax", "float32", 100)
    assert given.rtol == 0.5
    assert (given.atol, given.tiny) == (derived.atol, derived.tiny)
    assert rubric.tolerance_of("gelu", "float32", 100) == derived


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("schema: grader.rubric/1", "schema: other/3", 1, "grader.rubric/1"),
        ("title: Test\n", "", 1, "title: is missing; add it"),
        ("points: 10", "points: -1", 6, "exercises.gelu.points"),
        ("points: 10", "points: lots", 6, "exercises.gelu.points"),
        ("points: 10", "points: .nan", 6, "finite"),
        ("  gelu:", "  gleu:", 6, "no exercise 'gleu'"),
        ("aligned: 1,", "alinged: 1,", 4, "no exercise of this rubric has a check 'alinged'"),
        ("extreme: 2", "extrem: 2", 11, "softmax has no check 'extrem'"),
        ("[float32]", "[float64]", 12, "'float64' is not a dtype"),
        ("[float32]", "[]", 12, "exercises.softmax.dtypes"),
        ("rtol: 0.5", "rtl: 0.5", 14, "is not a key that a rubric has here"),
        ("seed: 7", "seed: 7\nseed: 8", 4, "given twice"),
        ("seed: 7", "seed: [7", 4, "is not YAML"),
        ("weights: {ragged: 0, extreme: 2}", "weights: {aligned: 0, ragged: 0}", 7, "all weights of softmax are 0"),
        ("file: attention/my_softmax.py", "file: ../../etc/passwd", 9, "exercises.softmax.file"),
        ("file: attention/my_softmax.py", "file: /root/softmax.py", 9, "exercises.softmax.file"),
        ("file: attention/my_softmax.py", "file: ../softmax.py", 9, "exercises.softmax.file"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path, old, new, line, says):
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(RubricError) as caught:
        load_rubric(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize("content", [b"", b"- 1\n", b"\xff\xfe", b"a: !!python/object:os.system x", b"{" * 5000])
def test_what_is_no_rubric_is_refused(tmp_path, content):
    with pytest.raises(RubricError) as caught:
        load_rubric(write(tmp_path, content))
    assert len(str(caught.value)) < 1000


def test_a_missing_rubric_names_the_option(tmp_path):
    with pytest.raises(RubricError, match="--rubric"):
        load_rubric(tmp_path / "none.yaml")


def test_a_folder_is_no_rubric(tmp_path):
    with pytest.raises(RubricError, match="can't be read"):
        load_rubric(tmp_path)
