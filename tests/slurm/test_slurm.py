"""`grader batch --cluster` in jobs of a real Slurm, with a fast child in pytest's place but for one test."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from grader.batch.ledger import Ledger
from grader.batch.run import Options, grade_class
from grader.batch.slots import PYTEST_GRADER
from grader.errors import ClusterError

from .single import GPUS, SingleSlurm

ROOT = Path(__file__).parents[2]
CHILD = (sys.executable, str(ROOT / "tests/batch_child.py"))
MODEL = "Made-up GPU"
SEED = 918273645
RUBRIC = """\
schema: grader.rubric/1
title: Short
seed: 1
weights: {aligned: 1, ragged: 1}
dtypes: [float32]
cases: {generated: 1, budget_s: 5, case_timeout_s: 5}
exercises: {gelu: {points: 10}, softmax: {points: 10}}
"""


def cluster_file(folder: Path, more: str = f"gres: gpu:1\ndevice: {MODEL}\n", init: str = "true") -> Path:
    path = folder / "cluster.yaml"
    path.write_text(
        f"scheduler: slurm\nwalltime: 1:00:00\nblocks: {GPUS}\ncpus: 1\nmemory_gib: 1\naddress: 127.0.0.1\n"
        f"shared: {folder}/shared\nworker_init: {init}\n{more}"
    )
    return path


@pytest.fixture
def options(slurm: SingleSlurm, tmp_path: Path) -> Options:
    """Twenty submissions of half a second each, on all GPUs."""
    for index in range(20):
        (tmp_path / f"class/s{index:02}").mkdir(parents=True)
        for exercise in ("gelu", "softmax"):
            (tmp_path / f"class/s{index:02}/{exercise}.py").write_text(f"# {exercise} {index}\n")
    (tmp_path / "rubric.yaml").write_text(RUBRIC)
    program = (*CHILD, "--log", str(tmp_path / "log"), "--gpu-name", MODEL, "--seconds", "0.5")
    return Options(tmp_path / "class", tmp_path / "out", ROOT, tmp_path / "rubric.yaml", unsafe=True, program=program,
                   timeout_s=60, seed=SEED, cluster=cluster_file(tmp_path))  # fmt: skip


def gradebook(out: Path) -> dict[str, dict[str, str]]:
    with (out / "gradebook.csv").open(newline="") as file:
        return {row["submission"]: row for row in csv.DictReader(file)}


def asked(options: Options) -> list[str]:
    log = options.out.parent / "log"
    return log.read_text().splitlines() if log.exists() else []


def until(happens: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not happens():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def workers() -> list[int]:
    """Parsl's workers that grade at this moment: the parents of the children."""
    children = [pid for pid, line in processes() if "batch_child.py --log" in line]
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in children if Path(f"/proc/{pid}").exists()]
    return [int(stat.rpartition(")")[2].split()[1]) for stat in stats]


def processes() -> list[tuple[int, str]]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append((int(path.parent.name), path.read_bytes().replace(b"\0", b" ").decode(errors="replace")))
        except OSError:
            continue
    return found


def test_all_are_graded_once_though_a_job_is_cancelled_and_a_worker_killed(slurm, options, capsys):
    seen: list[str] = []

    def disturb() -> None:
        until(lambda: len(asked(options)) >= 4, "nothing is graded")
        running = [job for job, state in slurm.queue().items() if state == "RUNNING"]
        subprocess.run(["scancel", running[0]], check=True)
        seen.append(f"cancelled {running[0]}")
        until(lambda: len(asked(options)) >= 10, "no more is graded")
        working: list[int] = []
        until(lambda: working.extend(workers()) or working, "no worker grades")
        os.kill(working[0], signal.SIGKILL)
        seen.append("killed")
        shared = [path for path in (options.out.parent / "shared").rglob("*") if path.is_file()]
        seen.append(f"files {len(shared)}")
        seen.extend(f"the seed in {path}" for path in shared if str(SEED).encode() in path.read_bytes())
        seen.extend(f"open to others: {path}" for path in (options.out.parent / "shared").iterdir()
                    if path.stat().st_mode & 0o077)  # fmt: skip

    saboteur = threading.Thread(target=disturb)
    saboteur.start()
    status = grade_class(options, Console(width=300))
    saboteur.join()
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert [word.split()[0] for word in seen] == ["cancelled", "killed", "files"]
    assert "the cluster lost it" in shown
    assert slurm.queue() == {}
    ledger = Ledger.in_file(options.out / "ledger.sqlite")
    assert sorted((one.submission, one.exercise) for one in ledger.grades()) == [
        (f"s{index:02}", exercise) for index in range(20) for exercise in ("gelu", "softmax")
    ]
    lines = asked(options)
    assert {line.rpartition(" cuda:")[2] for line in lines} == {str(index) for index in range(GPUS)}
    assert 20 < len(lines) <= 24  # what was lost was graded again, and nothing else
    local = replace(options, out=options.out.with_name("local"), cluster=None, gpus="none", program=CHILD)
    assert grade_class(local, Console()) == 0
    assert gradebook(options.out) == gradebook(local.out)
    before = len(lines)
    assert grade_class(options, Console(width=200)) == 0
    assert len(asked(options)) == before
    assert "nothing has changed" in capsys.readouterr().out


def test_neither_command_line_nor_environment_shows_the_seed(options, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADER_SEED", str(SEED))
    assert grade_class(replace(options, only=("s00",)), Console()) == 0
    shown = (tmp_path / "log.cmdline").read_bytes() + (tmp_path / "log.environ").read_bytes()
    assert b"SLURM_JOB_ID=" in shown
    assert str(SEED).encode() not in shown
    assert f'"seed":{SEED}' in (tmp_path / "out/results/s00.json").read_text().replace(" ", "")


def coordinator(options: Options) -> subprocess.Popen[bytes]:
    program = (
        "import sys; from pathlib import Path, PosixPath; from rich.console import Console\n"
        "from grader.batch.run import Options, grade_class\n"
        f"sys.exit(grade_class({options!r}, Console()))"
    )
    return subprocess.Popen([sys.executable, "-P", "-c", program], cwd=ROOT, start_new_session=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip


def test_ctrl_c_leaves_nothing_in_the_queue_and_keeps_what_was_graded(slurm, options):
    process = coordinator(options)
    until(lambda: len(asked(options)) >= 6, "nothing is graded")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, told = process.communicate(timeout=120)
    assert b"KeyboardInterrupt" in told
    until(lambda: slurm.queue() == {}, "jobs are left")
    assert len(Ledger.in_file(options.out / "ledger.sqlite").grades()) >= 2
    assert list((options.out.parent / "shared").iterdir()) == []


def test_a_killed_coordinator_takes_the_broker_with_it_and_the_run_is_resumed(slurm, options):
    process = coordinator(options)
    until(lambda: len(asked(options)) >= 6, "nothing is graded")
    brokers = [pid for pid, line in processes() if "interchange" in line]
    assert brokers
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    until(lambda: not {pid for pid, _ in processes()} & set(brokers), "the broker lives on")
    known = {(one.submission, one.exercise) for one in Ledger.in_file(options.out / "ledger.sqlite").grades()}
    before = len(asked(options))
    until(lambda: slurm.queue() == {}, "the jobs do not end")
    assert grade_class(options, Console()) == 0
    assert len(asked(options)) - before == 20 - len(known) // 2


@pytest.mark.parametrize(
    ("more", "init", "says"),
    [
        ("", "echo no module called cuda >&2; exit 1", "no module called cuda"),
        ("partition: nowhere\n", "true", "invalid partition specified: nowhere"),
    ],
)
def test_a_file_whose_jobs_can_not_start_ends_the_run_with_the_reason(slurm, options, capsys, more, init, says):
    file = cluster_file(options.out.parent, more, init)
    assert grade_class(replace(options, cluster=file, program=CHILD), Console(width=1000)) == 1
    shown = capsys.readouterr().out
    assert "3 jobs in a row ended before they could grade: " in shown
    assert says in shown
    assert "no slot is left: 20 submissions are not graded; run the same command again" in shown
    until(lambda: slurm.queue() == {}, "jobs are left")


def test_a_node_whose_gpu_is_ill_gets_nothing_more(slurm, options, capsys):
    """The emulated GPUs fail the health check; the only node is left out then, and Slurm has none."""
    (options.submissions / "s00/gelu.py").write_text("# die\n")
    assert grade_class(replace(options, only=("s00",)), Console(width=1000)) == 1
    shown = capsys.readouterr().out
    assert " gets no more submissions: " in shown
    assert "3 jobs in a row ended before they could grade: " in shown
    assert len(asked(options)) == 1
    until(lambda: slurm.queue() == {}, "jobs are left")


def test_another_gpu_than_the_file_says_ends_the_run(slurm, options):
    other = replace(options, only=("s00",), program=(*CHILD, "--gpu-name", "Another GPU"))
    with pytest.raises(ClusterError, match=f"device: is '{MODEL}', but a job graded on 'Another GPU'; correct it"):
        grade_class(other, Console())
    assert Ledger.in_file(options.out / "ledger.sqlite").grades() == []
    until(lambda: slurm.queue() == {}, "jobs are left")


def test_a_node_with_another_grader_ends_the_run(options, tmp_path):
    other = tmp_path / "node"
    shutil.copytree(ROOT / "grader", other / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "reference", other / "reference", ignore=shutil.ignore_patterns("__pycache__"))
    (other / "grader/judge.py").write_text("# older\n")
    file = cluster_file(tmp_path, init=f"export PYTHONPATH={other}")
    with pytest.raises(ClusterError, match=f"has another grader, torch or triton in {other} than this machine"):
        grade_class(replace(options, cluster=file, only=("s00",)), Console())
    assert asked(options) == []


def test_the_real_judge_grades_on_cpus_of_jobs(options, tmp_path):
    for name, source in (("s00", "gelu/right_flat.py"), ("s01", "gelu/forgot_half.py")):
        (options.submissions / name / "gelu.py").write_text((ROOT / "tests/submissions" / source).read_text())
    (options.submissions / "s02/gelu.py").unlink()
    real = replace(options, cluster=cluster_file(tmp_path, ""), program=PYTEST_GRADER, timeout_s=900,
                   exercises=("gelu",), only=("s00", "s01", "s02"))  # fmt: skip
    assert grade_class(real, Console()) == 0
    rows = gradebook(options.out)
    assert (rows["s00"]["gelu"], rows["s02"]["gelu"]) == ("10", "0")
    assert rows["s01"]["gelu"] not in ("", "10")
    assert list((options.out / "results").rglob("*.svg"))
