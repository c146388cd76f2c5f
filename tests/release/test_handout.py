"""A handout of one exercise, made, proved and used: by a student, by CI, on Gradescope, from a wheel."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import yaml

from grader.errors import ReleaseError
from grader.protected import changed
from grader.release import tree
from grader.release.prove import prove
from grader.rubric import load_rubric
from tests.release.course import ROOT, RUBRIC, copy_course, grader, run

pytestmark = pytest.mark.slow  # each grades for many seconds

VENV = Path(sys.prefix)
SOLUTION = ROOT / "reference/solutions/row_sum.py"
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with `repository` (the handout, a git repository with the tag v1), `autograder.zip`, and what was said."""
    folder = tmp_path_factory.mktemp("made")
    course = copy_course(folder / "course")
    repository = folder / "repository"
    with (course / "rubric.yaml").open("a") as file:
        file.write(f"  url: file://{repository}\n  tag: v1\n")
    done = grader(course, "release", "--out", repository, "--gradescope", folder / "autograder.zip",
                  GRADER_SEED="246813579")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "said.txt").write_text(done.stdout)
    (folder / "times.json").write_text(json.dumps(sorted({int(p.stat().st_mtime) for p in repository.rglob("*")})))
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "handout"], ["tag", "v1"]):
        assert run(*GIT, *arguments, cwd=repository).returncode == 0
    return folder


def students(made: Path, folder: Path, source: Path = SOLUTION) -> Path:
    """A student's copy of the handout with an exercise written."""
    shutil.copytree(made / "repository", folder, ignore=shutil.ignore_patterns(".git"))
    shutil.copy(source, folder / "student/row_sum.py")
    return folder


def test_it_was_proved_before_it_was_written(made):
    said = (made / "said.txt").read_text().splitlines()
    assert said[:4] == ["running the handout's own tests", "grading the starters", "grading the solutions",
                        "the solutions earn 5 of the 5 points that need no GPU"]  # fmt: skip
    assert [line.split(":")[0] for line in said[4:]] == [f"wrote {made}/autograder.zip", f"wrote {made}/repository"]


def test_it_has_what_students_need_and_nothing_of_the_staffs(made):
    files = {path.relative_to(made / "repository").as_posix() for path in (made / "repository").rglob("*")}
    assert {"README.md", "student/row_sum.py", "reference/row_sum.py", "rubric.yaml", "docs/pitfalls.md",
            "MANIFEST.sha256", ".github/workflows/grade.yml", ".gitlab-ci.yml", "ci/autograder.py",
            } <= files  # fmt: skip
    assert not {"reference/solutions", "reference/gelu.py", "grader/batch", "grader/adequacy", "grader/release"} & files
    assert not [name for name in files if "__pycache__" in name and not name.startswith(".git/")]
    done = grader(made / "repository", "--help")
    assert " verify " in done.stdout
    assert " batch " not in done.stdout


def test_what_a_handout_lacks_is_not_taken_from_the_staffs_repository(tmp_path):
    (tmp_path / "grader").mkdir()
    (tmp_path / "grader/__init__.py").touch()
    shutil.copy(ROOT / "grader/options.py", tmp_path / "grader")
    shutil.copy(ROOT / "grader/launch.py", tmp_path / "grader")
    (tmp_path / "tests").mkdir()
    with pytest.raises(ReleaseError, match=r"No module named 'grader\.cgroup'"):
        prove(tmp_path, load_rubric(ROOT / "rubric.yaml").rubric, tmp_path, print)


@pytest.mark.slow
def test_a_starter_that_is_written_is_refused(made, tmp_path):
    folder = students(made, tmp_path / "handout")
    with pytest.raises(ReleaseError, match="the starter's row_sum-aligned-float32 is passed, not not_implemented"):
        prove(folder, load_rubric(folder / "rubric.yaml").rubric, SOLUTION.parent, print)


@pytest.mark.slow
def test_a_solution_that_does_not_score_full_is_refused(made, tmp_path):
    folder = students(made, tmp_path / "handout", made / "repository/student/row_sum.py")
    with pytest.raises(ReleaseError, match="the solution's row_sum-aligned-float32 is not_implemented"):
        prove(folder, load_rubric(folder / "rubric.yaml").rubric, folder / "student", print)


def test_the_same_input_gives_the_same_bytes_modes_and_times(made, tmp_path):
    assert json.loads((made / "times.json").read_text()) == [tree.TIME]
    files = {
        name: (made / "repository" / name).read_bytes() for name in ("README.md", "ci/grade", "student/row_sum.py")
    }
    seen = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        tree.write(files if number == 1 else dict(reversed(files.items())), folder)
        tree.archive(files if number == 1 else dict(reversed(files.items())), tmp_path / f"{number}.zip")
        seen.append([(p.relative_to(folder), p.stat().st_mode, p.stat().st_mtime) for p in sorted(folder.rglob("*"))])
    assert seen[0] == seen[1]
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    assert os.access(tmp_path / "1/ci/grade", os.X_OK)


def test_oracles_can_be_compiled_away_and_still_judge(made, tmp_path):
    paths = [path for path in (made / "repository").rglob("*") if path.is_file() and ".git" not in path.parts]
    source = {path.relative_to(made / "repository").as_posix(): path.read_bytes() for path in paths}
    files = tree.compiled(source, {"row_sum": None})
    assert files == tree.compiled(source, {"row_sum": None})
    assert "reference/row_sum.py" not in files
    tree.write(files, tmp_path)
    code = "import reference; print(reference.load('row_sum').oracle is not None, reference.exercise_ids())"
    done = run(sys.executable, "-P", "-c", code, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.stdout.split() == ["True", "['row_sum']"], done.stderr


def test_changed_protected_files_are_told(made, tmp_path):
    submission = students(made, tmp_path / "submission")
    pristine = made / "repository"
    assert not list(changed(pristine, submission))
    (submission / "grader/scoring.py").write_text("# full points\n")
    (submission / "grader/new.py").write_text("")
    (submission / "rubric.yaml").unlink()
    (submission / ".github/workflows/grade.yml").write_text("on: push\n")
    (submission / "notes.txt").write_text("mine")
    assert list(changed(pristine, submission)) == [
        (".github/workflows/grade.yml", "was changed"), ("grader/new.py", "was added"),
        ("grader/scoring.py", "was changed"), ("rubric.yaml", "was removed"),
    ]  # fmt: skip
    assert not list(changed(pristine, submission / "student"))  # the exercise files alone are no removal of the rest


def steps_of(made: Path) -> list[dict]:
    return yaml.safe_load((made / "repository/.github/workflows/grade.yml").read_text())["jobs"]["cpu"]["steps"]


def test_the_steps_of_github_actions_grade_with_a_pristine_grader(made, tmp_path):
    submission = students(made, tmp_path / "submission")
    with (submission / "grader/scoring.py").open("a") as file:
        file.write("raise SystemExit('the submission is the grader')\n")
    (tmp_path / "venv").symlink_to(VENV)
    workflow = yaml.safe_load((made / "repository/.github/workflows/grade.yml").read_text())
    variables = {**workflow["env"], "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    output = {}
    for step in steps_of(made):
        if "run" in step and step["name"] != "install":
            done = run("bash", "-eo", "pipefail", "-c", step["run"], cwd=tmp_path, **variables)
            assert done.returncode == 0, f"{step['name']}: {done.stdout}{done.stderr}"
            output[step["name"]] = done.stdout
    assert output["protected files"].startswith("::warning title=protected file::grader/scoring.py: was changed")
    assert "5 / 5" in (tmp_path / "summary.md").read_text()
    assert json.loads((tmp_path / "out/result.json").read_text())["totals"]["earned"] == 5
    assert (tmp_path / "out/junit.xml").read_text().startswith("<?xml")


def test_a_grader_that_is_not_the_pinned_one_is_refused(made, tmp_path):
    fetch = next(step["run"] for step in steps_of(made) if step.get("name") == "fetch the grader")
    other = tmp_path / "other"
    shutil.copytree(made / "repository", other)
    (other / "grader/scoring.py").write_text("")
    for arguments in (["commit", "-qam", "x"], ["tag", "-f", "v1"]):
        assert run(*GIT, *arguments, cwd=other).returncode == 0
    variables = yaml.safe_load((made / "repository/.github/workflows/grade.yml").read_text())["env"]
    done = run("bash", "-eo", "pipefail", "-c", fetch, cwd=tmp_path, **{**variables, "GRADER_URL": f"file://{other}"})
    assert done.returncode != 0
    assert "grader/scoring.py: FAILED" in done.stdout


@pytest.mark.slow
def test_the_script_of_gitlab_reports_a_starter(made, tmp_path):
    job = yaml.safe_load((made / "repository/.gitlab-ci.yml").read_text())
    submission = students(made, tmp_path / "project", made / "repository/student/row_sum.py")
    (tmp_path / "venv").symlink_to(VENV)
    variables = {**job["variables"], "DEVICE": "cpu", "CI_PROJECT_DIR": str(submission)}
    lines = [*(line for line in job[".grade"]["before_script"] if "install" not in line), *job[".grade"]["script"]]
    done = run("bash", "-eo", "pipefail", "-c", "\n".join(lines), cwd=submission, **variables)
    assert done.returncode == 1, done.stdout + done.stderr  # points were lost: the last line
    assert "no protected file was changed" in done.stdout
    assert "not_implemented" in done.stdout
    assert (submission / "out/junit.xml").is_file()


@pytest.mark.slow
def test_the_autograder_of_classroom_50_leaves_its_result(made, tmp_path):
    submission = students(made, tmp_path / "submission")
    done = run(sys.executable, made / "repository/ci/autograder.py", cwd=submission, GRADER_VENV=str(VENV),
               ASSIGNMENT="kernels")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((submission / "result.json").read_text())
    assert (result["score"], result["max-score"], result["assignment"]) == (500, 1000, "kernels")


@pytest.mark.skipif(not importlib.util.find_spec("check_jsonschema"), reason="needs check-jsonschema")
@pytest.mark.parametrize(
    ("file", "schema"),
    [
        (".github/workflows/grade.yml", ["vendor.github-workflows"]),
        (".gitlab-ci.yml", ["vendor.gitlab-ci", "--data-transform", "gitlab-ci"]),
    ],
)
def test_the_ci_files_fit_the_platforms_schemas(made, file, schema):
    done = run(
        sys.executable, "-m", "check_jsonschema", "--builtin-schema", *schema, made / "repository" / file, cwd=made
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", ["ci/install", "ci/grade"])
def test_the_scripts_are_bash(made, script):
    assert run("bash", "-n", made / "repository" / script, cwd=made).returncode == 0


def container(made: Path, root: Path, source: Path = SOLUTION) -> Path:
    """The tree of Gradescope's container."""
    for name in ("source", "submission", "results"):
        (root / name).mkdir(parents=True)
    assert run("unzip", "-q", made / "autograder.zip", "-d", root / "source", cwd=root).returncode == 0
    shutil.copy(source, root / "submission/row_sum.py")
    (root / "venv").symlink_to(VENV)
    return root


def test_gradescopes_archive_grades_in_its_container_with_the_staffs_rubric(made, tmp_path):
    root = container(made, tmp_path / "autograder")
    assert run("bash", "-n", root / "source/setup.sh", cwd=root).returncode == 0
    done = run(root / "source/run_autograder", cwd="/", AUTOGRADER_ROOT=str(root))
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((root / "results/results.json").read_text())
    assert results["score"] == 5
    assert {test["name"]: test.get("status") for test in results["tests"]} == {
        "row_sum aligned-float32": "passed", "row_sum speed-16384x32768.float32": None
    }  # fmt: skip
    graded = json.loads((root / "results/grader/result.json").read_text())
    assert graded["environment"]["seed"] == 246813579
    assert (
        graded["environment"]["rubric_sha256"] == hashlib.sha256((made / "course/rubric.yaml").read_bytes()).hexdigest()
    )
    assert "246813579" not in (root / "results/results.json").read_text()


@pytest.mark.parametrize(
    "how",
    ["SIGKILL", pytest.param("SIGTERM", marks=pytest.mark.slow), pytest.param("budget", marks=pytest.mark.slow)],
)
def test_a_killed_autograder_leaves_a_partial_result(made, tmp_path, how):
    stuck = tmp_path / "stuck.py"
    stuck.write_text("import time\ntime.sleep(1000)\n")
    root = container(made, tmp_path / "autograder", stuck)
    budget_s = "6" if how == "budget" else "200"
    environment = {**os.environ, "AUTOGRADER_ROOT": str(root), "GRADER_BUDGET_S": budget_s, "GRADER_SANDBOX": "L0"}
    results = root / "results/results.json"
    with subprocess.Popen([root / "source/run_autograder"], env=environment, cwd="/", stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as running:  # fmt: skip
        if how != "budget":
            until(lambda: results.is_file() and "tests" in json.loads(results.read_text()))
            running.send_signal(signal.Signals[how])
        assert running.wait(60) == (-signal.SIGKILL if how == "SIGKILL" else 0)
    written = json.loads(results.read_text())
    assert written["score"] == 0
    assert {"SIGKILL": "was killed", "SIGTERM": "stopped (SIGTERM)", "budget": "the time is over"}[how] in written[
        "output"
    ]


def until(condition, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def test_an_archive_has_the_modes_that_gradescope_needs(made):
    with zipfile.ZipFile(made / "autograder.zip") as archive:
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
    assert modes["run_autograder"] == modes["setup.sh"] == 0o755
    assert modes["course/rubric.yaml"] == 0o644
    assert not [name for name in modes if "solutions" in name or "release/" in name]


@pytest.mark.skipif(not importlib.util.find_spec("build"), reason="needs build")
def test_a_wheel_grades_a_course_folder(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("grader", "reference"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source / name)
    done = run(sys.executable, "-P", "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ".", cwd=source)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    assert run("unzip", "-q", wheel, "-d", site, cwd=tmp_path).returncode == 0
    assert not list(site.rglob("solutions"))
    assert (site / "grader/report/templates/report.css").is_file()
    course = tmp_path / "course"
    shutil.copytree(ROOT / "student", course / "student")
    (course / "rubric.yaml").write_text(RUBRIC)
    done = run(sys.executable, "-P", "-m", "pytest", "grader", "--collect-only", "-q", cwd=course, PYTHONPATH=str(site))
    assert "test_correctness[row_sum-aligned-float32]" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    (course / "rubric.yaml").unlink()
    done = run(sys.executable, "-P", "-m", "pytest", "grader", cwd=course, PYTHONPATH=str(site))
    assert done.returncode == 2
    assert f"{course}/rubric.yaml: can't be read" in done.stderr
