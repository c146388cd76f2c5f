"""The whole flow in child processes: `pytest grader` as a student, staff and CI run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from grader.result import Result

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "tests/submissions"


def pytest_grader(*arguments: object, cwd: Path = ROOT, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "pytest", "grader", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False)


def result_of(path: Path) -> Result:
    return Result.model_validate_json(path.read_text())


def short_rubric(tmp_path: Path, exercises: str = "softmax: {points: 10, dtypes: [float32]}") -> Path:
    path = tmp_path / "rubric.yaml"
    path.write_text(
        textwrap.dedent(f"""\
        schema: grader.rubric/1
        title: Short
        seed: 1
        weights: {{aligned: 1, ragged: 1, strided: 1, extreme: 1}}
        cases: {{generated: 2, case_timeout_s: 5}}
        exercises: {{{exercises}}}
        """)
    )
    return path


def submission(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "submission"
    folder.mkdir()
    for name, source in files.items():
        shutil.copy(CORPUS / source, folder / f"{name}.py")
    return folder


def test_a_right_submission_earns_everything_and_exits_0(tmp_path):
    out = tmp_path / "result.json"
    folder = submission(tmp_path, softmax="softmax/right_online.py")
    done = pytest_grader("--submission", folder, "--rubric", short_rubric(tmp_path), "--result", out,
                         "--junitxml", tmp_path / "junit.xml")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "points: 10 earned / 10 gradable here / 10 maximum" in done.stdout
    assert json.loads(out.read_text())["schema"] == "grader.result/1"
    result = result_of(out)
    assert [item.status for item in result.exercises["softmax"].items] == ["passed"] * 4
    assert result.totals.earned == pytest.approx(10)
    assert result.environment.seed == 1
    assert result.environment.triton
    cases = ET.parse(tmp_path / "junit.xml").getroot().findall(".//testcase")
    properties = {p.get("name"): p.get("value") for p in cases[0].findall("properties/property")}
    assert len(cases) == 4
    assert properties == {"max_points": "2.5", "status": "passed", "points": "2.5"}


def test_a_wrong_submission_shows_case_hint_and_a_command_that_shows_it_again(tmp_path):
    rubric = short_rubric(tmp_path)
    folder = submission(tmp_path, softmax="softmax/zero_padding.py")
    done = pytest_grader("--submission", folder, "--rubric", rubric, "--result", tmp_path / "r.json")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    item = next(i for i in result_of(tmp_path / "r.json").exercises["softmax"].items if i.check == "ragged")
    assert item.status == "wrong_values"
    assert "softmax float32[" in item.message
    assert "−∞" in item.hint
    assert item.reproduce in done.stdout
    again = subprocess.run(
        f"{sys.executable} -P -m {item.reproduce} --result {tmp_path}/again.json",
        shell=True, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert again.returncode == 1
    repeated = result_of(tmp_path / "again.json").exercises["softmax"].items
    assert [(i.status, i.message) for i in repeated] == [(item.status, item.message)]


def test_the_starters_are_not_implemented_and_exit_1(tmp_path):
    done = pytest_grader("--result", tmp_path / "r.json")
    assert done.returncode == 1
    items = [i for e in result_of(tmp_path / "r.json").exercises.values() for i in e.items]
    assert {i.status for i in items if i.check != "speed"} == {"not_implemented"}
    assert all(not i.gradable or i.status == "not_implemented" for i in items)
    assert "points: 0 earned" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_missing_file_is_not_implemented_and_the_others_are_graded(tmp_path):
    rubric = short_rubric(tmp_path, "softmax: {points: 5, dtypes: [float32]}, row_sum: {points: 5, dtypes: [float32]}")
    folder = submission(tmp_path, softmax="softmax/right_online.py")
    done = pytest_grader("--submission", folder, "--rubric", rubric, "--result", tmp_path / "r.json")
    assert done.returncode == 1
    result = result_of(tmp_path / "r.json")
    assert {i.status for i in result.exercises["softmax"].items} == {"passed"}
    assert {i.status for i in result.exercises["row_sum"].items} == {"not_implemented"}
    assert "the submission has no row_sum.py" in done.stdout


# Arguments that can't be graded, and what is said of them. {folder} is one of the test's own.
BAD_INPUT = {
    "no folder": (["--submission", "nowhere"], "nowhere: does not exist"),
    "a file": (["--submission", "rubric.yaml"], "rubric.yaml: is not a folder"),
    "a large file": (
        ["--submission", "{folder}", "--exercise", "softmax"],
        "softmax.py: 2097152 bytes; a source file may have 1048576",
    ),
    "an exercise": (["--exercise", "softmux"], "--exercise softmux: the rubric has no such exercise; it has gelu"),
    "no rubric": (["--rubric", "nowhere.yaml"], "nowhere.yaml: can't be read"),
    "another file": (["--rubric", "README.md"], "README.md"),
    "no place": (["--result", "nowhere/result.json"], "there is no folder"),
    "no case": (["--reproduce", "softmax"], "is not of the form"),
    "no check": (["--reproduce", "softmax/gradient/float32/x:3x3:normal:contiguous/0"], "the rubric grades no"),
    "no input": (["--reproduce", "softmax/ragged/float32/y:3x3:normal:contiguous/0"], "softmax takes x"),
}
# One process for all of them: each would import torch for seconds.
EACH_IN_TURN = """
import json, sys, pytest
for arguments in json.loads(sys.argv[1]):
    status = int(pytest.main(["grader", *arguments]))
    for stream in (sys.stdout, sys.stderr):
        print(f"status {status}", file=stream, flush=True)
"""


@pytest.fixture(scope="module")
def said_of_bad_input(tmp_path_factory):
    """By name: status, standard output, standard error, and whether a result was written."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "softmax.py").write_bytes(b"x" * (2 << 20))
    out = folder / "r.json"
    # Options given twice: the last one counts.
    asked = [["--result", str(out), *(one.format(folder=folder) for one in arguments)]
             for arguments, _ in BAD_INPUT.values()]  # fmt: skip
    done = subprocess.run([sys.executable, "-P", "-c", EACH_IN_TURN, json.dumps(asked)],
                          cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)  # fmt: skip
    outputs, errors = (re.split(r"status (\d+)\n", stream) for stream in (done.stdout, done.stderr))
    said = zip(outputs[1::2], outputs[:-1:2], errors[:-1:2], strict=True)
    return {name: (*of_name, out.exists()) for name, of_name in zip(BAD_INPUT, said, strict=True)}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_one_line_and_exit_2_and_leaves_no_result(said_of_bad_input, name):
    status, out, err, written = said_of_bad_input[name]
    assert status == "2"
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert BAD_INPUT[name][1] in err
    assert not written


def test_nothing_in_a_submission_reaches_the_judge(tmp_path):
    """A conftest.py beside the submission was once imported, since pytest took the option's value for a folder."""
    folder = tmp_path / "submission"
    shutil.copytree(CORPUS / "misbehaving/shadow_torch", folder)
    marker = tmp_path / "hijacked"
    code = f"open({str(marker)!r}, 'a').write(__file__ + chr(10))\n"
    for name in ("conftest.py", "sitecustomize.py", "torch.py", "triton.py", "grader.py", "pytest.py", "reference.py"):
        (folder / name).write_text(code)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p conftest\n")
    done = pytest_grader("--submission", folder, "--rubric", short_rubric(tmp_path), "--result", tmp_path / "r.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not marker.exists()
    before = pytest_grader_with_submission_first(folder, short_rubric(tmp_path), tmp_path / "r.json")
    assert before.returncode == 2
    assert "inside the submission" in before.stderr


def pytest_grader_with_submission_first(folder: Path, rubric: Path, out: Path) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-P", "-m", "pytest", "--submission", str(folder), "grader", "--rubric", str(rubric),
               "--result", str(out)]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_broken_off_leaves_a_whole_result(tmp_path, how):
    folder = submission(tmp_path, softmax="misbehaving/endless_loop/softmax.py", gelu="gelu/right_flat.py")
    rubric = short_rubric(tmp_path, "gelu: {points: 5, dtypes: [float32]}, softmax: {points: 5, dtypes: [float32]}")
    out = tmp_path / "r.json"
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "grader",
        "--submission",
        folder,
        "--rubric",
        rubric,
        "--result",
        out,
    ]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while not (out.exists() and "passed" in out.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    child.send_signal(how)
    output, _ = child.communicate(timeout=120)
    result = result_of(out)
    statuses = [item.status for exercise in result.exercises.values() for item in exercise.items]
    assert "passed" in statuses
    assert "not_measured" in statuses
    assert len(statuses) == 8
    if how == signal.SIGINT:
        assert child.returncode == 2
        assert "points:" in output.decode()
    assert not leftover_processes(), "the worker side outlived the judge"


def leftover_processes() -> list[str]:
    deadline = time.monotonic() + 10
    left: list[str] = []
    while time.monotonic() < deadline:
        left = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and entry.name != str(os.getpid()):
                try:
                    command = (entry / "cmdline").read_bytes().decode(errors="replace")
                    parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                except OSError:
                    continue
                if "zygote.main()" in command and parent == "1":
                    left.append(command)
        if not left:
            break
        time.sleep(0.2)
    return left


def test_the_same_seed_judges_the_same_cases_and_another_seed_others(tmp_path):
    rubric = short_rubric(tmp_path)
    folder = submission(tmp_path, softmax="softmax/strides_ignored.py")
    outcomes = []
    for number, seed in enumerate(("5", "5", "6")):
        out = tmp_path / f"{number}.json"
        pytest_grader("--submission", folder, "--rubric", rubric, "--seed", seed, "--result", out)
        outcomes.append([(i.status, i.message, i.case) for i in result_of(out).exercises["softmax"].items])
    assert outcomes[0] == outcomes[1]
    assert [status for status, _, _ in outcomes[0]] == [status for status, _, _ in outcomes[2]]


def test_a_file_and_an_entry_of_other_names_are_graded(tmp_path):
    folder = tmp_path / "submission"
    (folder / "kernels").mkdir(parents=True)
    source = (CORPUS / "softmax/right_online.py").read_text()
    source += textwrap.dedent("""

        class Softmax(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return softmax(x)


        class Adapters:
            fused = staticmethod(softmax)
        """)
    (folder / "kernels/mine.py").write_text(source)
    for number, entry in enumerate(("Softmax", "Adapters.fused")):
        rubric = short_rubric(
            tmp_path, f"softmax: {{points: 1, dtypes: [float32], file: kernels/mine.py, entry: {entry}}}"
        )
        out = tmp_path / f"{number}.json"
        done = pytest_grader("--submission", folder, "--rubric", rubric, "--result", out)
        assert done.returncode == 0, done.stdout


def test_a_result_that_can_not_be_written_is_said_and_the_run_goes_on(tmp_path):
    folder = submission(tmp_path, softmax="softmax/right_online.py")
    out = tmp_path / "taken"
    out.mkdir()
    done = pytest_grader("--submission", folder, "--rubric", short_rubric(tmp_path), "--result", out)
    assert "could not be written" in done.stderr
    assert "points: 10 earned" in done.stdout


def test_a_result_that_goes_nowhere_leaves_no_folder_beside_it(tmp_path):
    nowhere = tmp_path / "null"
    nowhere.symlink_to("/dev/null")
    folder = submission(tmp_path, softmax="softmax/not_normalised.py")
    done = pytest_grader("--submission", folder, "--rubric", short_rubric(tmp_path), "--result", nowhere)
    assert done.returncode == 1
    assert "error:" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["null", "rubric.yaml", "submission"]
