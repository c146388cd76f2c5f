"""A class graded in jobs of a real Slurm on this machine, with emulated GPUs, a cancelled job and a killed worker.

python benchmarks/slurm.py [--submissions 60] [--seconds 1] [--json FILE]

A fast child is in the judge's place: this measures what the cluster adds, and that nothing is lost or graded twice.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environment import environment

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.slurm.single import GPUS, SingleSlurm, missing  # noqa: E402 - of the folder above
from tests.slurm.test_slurm import MODEL, RUBRIC, cluster_file, workers  # noqa: E402


def make_class(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"s{number:03}").mkdir(parents=True)
        for exercise in ("gelu", "softmax"):
            (folder / f"s{number:03}/{exercise}.py").write_text(f"# {exercise} {number}\n")


def start(work: Path, out: str, seconds: float, where: str) -> subprocess.Popen[bytes]:
    program = (
        "import sys; from pathlib import Path; from rich.console import Console\n"
        "from grader.batch.run import Options, grade_class\n"
        f"options = Options(Path({str(work / 'class')!r}), Path({str(work / out)!r}), Path({str(ROOT)!r}), "
        f"Path({str(work / 'rubric.yaml')!r}), unsafe=True, timeout_s=600, {where}, "
        f"program=(sys.executable, {str(ROOT / 'tests/batch_child.py')!r}, '--log', {str(work / out)!r} + '.log', "
        f"'--gpu-name', {MODEL if 'cluster' in where else 'cpu'!r}, '--seconds', '{seconds}'))\n"
        "sys.exit(grade_class(options, Console(width=200)))"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (work / f"{out}.shown").open("wb") as sink:
        return subprocess.Popen([sys.executable, "-P", "-c", program], cwd=ROOT, env=environ, stdout=sink, stderr=sink)


def log_of(work: Path, out: str) -> list[str]:
    log = work / f"{out}.log"
    return log.read_text().splitlines() if log.exists() else []


def disturb(slurm: SingleSlurm, work: Path, process: subprocess.Popen[bytes], count: int) -> None:
    """Cancel a job after a fifth of the class, kill a worker after two."""
    cancelled = killed = False
    while process.poll() is None and not killed:
        begun = len(log_of(work, "out"))
        running = [job for job, state in slurm.queue().items() if state == "RUNNING"]
        if not cancelled and begun >= count // 5 and running:
            subprocess.run(["scancel", running[0]], check=True)
            cancelled = True
        elif cancelled and begun >= 2 * count // 5 and (working := workers()):
            os.kill(working[0], signal.SIGKILL)
            killed = True
        time.sleep(0.1)
    if not (cancelled and killed):
        raise SystemExit(f"the run ended before it was disturbed:\n{(work / 'out.shown').read_text()}")


def book(work: Path, out: str) -> list[list[str]]:
    with (work / out / "gradebook.csv").open(newline="") as file:
        return list(csv.reader(file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--submissions", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=1.0, help="that the child takes")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if why := missing():
        raise SystemExit(why)
    import parsl

    count = arguments.submissions
    with tempfile.TemporaryDirectory(prefix="grader-slurm-") as name, SingleSlurm() as slurm:
        work = Path(name)
        make_class(work / "class", count)
        (work / "rubric.yaml").write_text(RUBRIC)
        file = cluster_file(work)
        begun = time.monotonic()
        process = start(work, "out", arguments.seconds, f"cluster=Path({str(file)!r})")
        disturb(slurm, work, process, count)
        status = process.wait()
        seconds = time.monotonic() - begun
        left = slurm.queue()
        if status != 0:
            raise SystemExit((work / "out.shown").read_text())
        if start(work, "local", 0, "gpus='none'").wait() != 0:
            raise SystemExit((work / "local.shown").read_text())
        with sqlite3.connect(work / "out/ledger.sqlite") as database:
            rows = database.execute("select submission, exercise from grades").fetchall()
        lines = log_of(work, "out")
        found = {
            "environment": {**environment(), "parsl": parsl.__version__, "load": os.getloadavg()[0],
                            "slurm": subprocess.run(["sinfo", "--version"], capture_output=True, text=True,
                                                    check=True).stdout.strip()},
            "submissions": count,
            "emulated_gpus": GPUS,
            "child_s": arguments.seconds,
            "seconds": round(seconds, 1),
            "jobs_cancelled": 1,
            "workers_killed": 1,
            "children_started": len(lines),
            "gpus_used": sorted({line.rpartition(":")[2] for line in lines}),
            "grades": len(rows),
            "each_graded_once": len(rows) == len(set(rows)) == 2 * count,
            "equal_to_an_undisturbed_local_run": book(work, "out") == book(work, "local"),
            "jobs_left_in_the_queue": len(left),
        }  # fmt: skip
        shown = (work / "out.shown").read_text()
        found["told"] = [line for line in shown.splitlines() if "the cluster lost it" in line]
    print(json.dumps(found, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    if not found["each_graded_once"] or not found["equal_to_an_undisturbed_local_run"] or left:
        raise SystemExit("something is not as it should be")


if __name__ == "__main__":
    main()
