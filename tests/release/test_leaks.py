"""What must not be in a handout is found there, and makes `grader release` refuse."""

from __future__ import annotations

import pytest

from grader.errors import ReleaseError
from grader.release import tree
from grader.release.leaks import find_leaks
from grader.release.public import Hidden, public_rubric
from grader.release.starters import cuts
from grader.rubric import load_rubric
from tests.release.course import ROOT, RUBRIC, copy_course, grader

LINE = "lane_sum = lane_sum * tl.exp(lane_max - reference) + tl.exp(x - reference)"
SOLUTIONS = {"the solution": [f"    {LINE}  # rescaled whenever the maximum of the lane grows", "    x = 1"]}
HIDDEN = [Hidden("seed", "seed", 20260415), Hidden("speed.[0].floor", "floor", 0.613)]


def found(text: str, seeds: tuple[int, ...] = ()) -> list[str]:
    return [str(leak) for leak in find_leaks({"a.py": text.encode()}, SOLUTIONS, HIDDEN, seeds)]


@pytest.mark.parametrize(
    "text",
    [
        f"def f():\n    {LINE}\n",
        f'"""A docstring.\n  {LINE}\n"""',
        f"#\n#     {LINE}\n",
        f"> *\n> {LINE[:30]}\n> {LINE[30:]}\n",
        "\n" + LINE.replace(" ", ""),
        "\n# Rescaled whenever the maximum of the lane grows".replace("Rescaled", "rescaled"),
    ],
)
def test_a_line_of_a_solution_is_found_whatever_it_stands_in(text):
    assert found(text) == ["a.py:2: a line of the solution"]


@pytest.mark.parametrize(
    "line",
    ["# seed 20260415.", "SEED = 20_260_415", f"x = {20260415:#X}", "x = 020260415", '"""20260415"""'],
)
def test_a_hidden_seed_is_found(line):
    assert found(f"\n{line}\n") == ["a.py:2: the hidden seed"]


def test_the_seed_of_the_batch_is_found():
    assert found("# 987654321\n", (987654321,)) == ["a.py:1: the hidden seed"]


@pytest.mark.parametrize("line", ["floor: 0.613", "`floor` = 0.613,", "Floor 0.6130"])
def test_a_hidden_threshold_is_found_beside_its_key(line):
    assert found(line) == ["a.py:1: the hidden floor".replace("floor", line.strip("`")[:5])]


@pytest.mark.parametrize("line", ["120260415", "20260415.5", "202604151", "floor: 0.6131", "target: 0.613", "x = 1"])
def test_what_only_looks_like_it_is_not(line):
    assert not found(line)


def test_a_seed_that_could_be_any_number_is_refused():
    with pytest.raises(ReleaseError, match="take a larger one"):
        found("", (7,))


def test_nothing_leaks_from_this_repository():
    rubric = load_rubric(ROOT / "rubric.yaml").rubric
    public, hidden = public_rubric((ROOT / "rubric.yaml").read_bytes())
    starters = cuts(ROOT, rubric)
    files = tree.with_ci(tree.handout(ROOT, rubric, public, starters), rubric)
    assert not find_leaks(files, {name: each.solution for name, each in starters.items()}, hidden, [])
    assert not [name for name in files if "solutions" in name or name.startswith(("grader/batch", "grader/release"))]
    # The search would see them: of every solution, nearly all lines that tell something.
    for name, each in starters.items():
        planted = {**files, "docs/students.md": "\n".join(each.solution).encode()}
        assert len(find_leaks(planted, {name: each.solution}, [], [])) >= 8


def test_the_public_rubric_has_what_public_says(tmp_path):
    public, hidden = public_rubric(RUBRIC.encode())
    path = tmp_path / "rubric.yaml"
    path.write_bytes(public)
    rubric = load_rubric(path).rubric
    assert (rubric.seed, rubric.exercises["row_sum"].speed[0].floor) == (31415, 0.5)
    assert not rubric.release.public
    assert {(each.place, each.value) for each in hidden} == {
        ("seed", 20260415), ("exercises.row_sum.speed.[0].floor", 0.613), ("exercises.row_sum.speed.[0].target", 1.153)
    }  # fmt: skip
    assert b"20260415" not in public


def test_null_leaves_a_key_out_and_a_rubric_without_release_stays_as_it_is():
    with_null = RUBRIC.replace("seed: 31415, exercises", "cases: null, exercises")
    assert b"case_timeout_s" not in public_rubric(with_null.encode())[0]
    plain = RUBRIC[: RUBRIC.index("release:")].encode()
    assert b"20260415" in public_rubric(plain)[0]
    assert public_rubric(plain)[1] == []


@pytest.mark.parametrize(
    ("file", "planted", "variables", "says"),
    [
        ("student/row_sum.py", "", {}, "is not what its solution gives; write it anew: make starters"),
        (
            "docs/students.md",
            "\n\n> {line}\n",
            {},
            "docs/students.md:{number}: a line of the solution of student/row_sum",
        ),
        (
            "grader/judge.py",
            "\n# seed 777123\n",
            {"GRADER_SEED": "777123"},
            "grader/judge.py:{number}: the hidden seed",
        ),
    ],
)
def test_release_refuses_a_planted_leak_and_writes_nothing(tmp_path, file, planted, variables, says):
    (tmp_path / "course").mkdir()
    course = copy_course(tmp_path / "course")
    solution = (course / "reference/solutions/row_sum.py").read_text().splitlines()
    line = next(line.strip() for line in solution if "tl.load(" in line)
    path = course / file
    text = path.read_text() + planted.format(line=line)
    path.write_text(text or "changed")
    if not planted:
        path.write_text("# changed\n" + text)
    done = grader(course, "release", "--out", tmp_path / "out", "--gradescope", tmp_path / "a.zip", **variables)
    assert done.returncode == 2, done.stdout
    assert says.format(number=len(text.splitlines())) in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["course"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give --out DIR, --gradescope ZIP or both, or --check alone"),
        (["--out", "student"], "--out student: is there already"),
        (["--out", "no/where"], "make it first"),
        (["--check", "--rubric", "none.yaml"], "none.yaml: can't be read"),
    ],
)
def test_bad_input_is_one_line(arguments, says):
    done = grader(ROOT, "release", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
