"""Where submissions are graded: a slot runs one `pytest grader` child at a time, on CPU cores or a GPU of its own.

Trusted side. The scheduler knows slots by `Slot` only; a cluster's slot is another class with the same methods.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from ..errors import GraderError
from ..report.attachments import folder_of
from ..result import Result
from ..verdict import Status

PYTEST_GRADER = (sys.executable, "-P", "-m", "pytest", "grader")
_HEALTH = "from grader.gpu import check_health; check_health()"
HEALTH_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 5.0
_TAIL_BYTES = 2000


@dataclass(frozen=True)
class Job:
    """One submission to grade: its exercise files in a folder, and which exercises."""

    submission: str
    folder: Path
    exercises: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of a job: a result with the pictures that it names, or the grader's fault in one line."""

    result: Result | None
    fault: str
    seconds: float
    pictures: Mapping[str, str] = field(default_factory=dict)


class Slot(Protocol):
    """Runs jobs, one at a time. Each slot belongs to one thread; `stop` is called from another."""

    @property
    def name(self) -> str:
        """Short and unique: `cpu3`, `gpu0`."""

    def run(self, job: Job) -> Outcome:
        """Grade a submission."""

    def fault(self) -> str:
        """Why nothing should run here any more, "" where all is well; asked after a job failed."""

    def stop(self) -> None:
        """End what runs, now and later."""


@dataclass(frozen=True)
class Grader:
    """How `pytest grader` is called: the same for all slots of a run."""

    root: Path
    rubric: Path
    seed: int
    timeout_s: float
    options: tuple[str, ...] = ()
    program: tuple[str, ...] = PYTEST_GRADER
    peer_times: Path | None = None  # a file that graders on GPUs share


class ChildSlot:
    """A slot on this machine. `gpu` is an index or UUID for CUDA_VISIBLE_DEVICES, None for a slot on the CPU."""

    def __init__(self, name: str, grader: Grader, *, cores: Sequence[int], gpu: str | None = None) -> None:
        self.name = name
        self.gpu = gpu
        self._grader = grader
        self._cores = cores
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def run(self, job: Job) -> Outcome:
        """Run a child and read its result."""
        started = time.monotonic()
        # Children inherit the affinity of the thread that starts them.
        os.sched_setaffinity(0, self._cores)
        with tempfile.TemporaryDirectory(prefix="grader-batch-") as name:
            result = Path(name) / "result.json"
            fault = self._run(job, result)
            found, pictures = None, {}
            if not fault:
                found, fault = _read(result, job)
                pictures = {path.name: path.read_text(encoding="utf-8") for path in folder_of(result).glob("*.svg")}
        return Outcome(None if fault else found, fault, time.monotonic() - started, pictures)

    def fault(self) -> str:
        """Whether the GPU still computes; a CPU is taken to be well."""
        if self.gpu is None or self._stopped:
            return ""
        try:
            done = subprocess.run(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-P", "-c", _HEALTH], cwd=self._grader.root, env=self._environment(),
                capture_output=True, text=True, timeout=HEALTH_TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"did not answer within {HEALTH_TIMEOUT_S:g} s"
        return "" if done.returncode == 0 else _worst_line(done.stderr) or f"exit status {done.returncode}"

    def stop(self) -> None:
        """Kill the child; its workers die with it."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                _kill(self._process)

    def _run(self, job: Job, result: Path) -> str:
        grader = self._grader
        selected = [word for exercise in job.exercises for word in ("--exercise", exercise)]
        device = ["--device", "cpu" if self.gpu is None else "cuda"]
        if self.gpu is not None and grader.peer_times is not None:
            device += ["--peer-times", str(grader.peer_times)]
        control, ours = os.pipe()
        command = [*grader.program, "--submission", str(job.folder), "--rubric", str(grader.rubric), "--result",
                   str(result), "--control", str(control), *device, *selected, *grader.options,
                   "-q", "--no-header", "--tb=no"]  # fmt: skip
        output = result.with_name("output")
        try:
            with output.open("w+b") as sink, os.fdopen(ours, "wb") as pipe:
                with self._lock:
                    if self._stopped:
                        return "stopped"
                    self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                        command, cwd=grader.root, env=self._environment(), pass_fds=(control,),
                        stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True,
                    )  # fmt: skip
                with contextlib.suppress(BrokenPipeError):
                    pipe.write(json.dumps({"seed": grader.seed}).encode() + b"\n")
                    pipe.flush()
                try:
                    code = self._process.wait(grader.timeout_s)
                except subprocess.TimeoutExpired:
                    return f"the submission was not finished within {grader.timeout_s:g} s"
        finally:
            os.close(control)
            if self._process is not None:
                _kill(self._process)
        if code in (0, 1) and result.exists():
            return ""
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
            told = _worst_line(file.read().decode(errors="replace"))
        return f"pytest grader left no result and ended with {_named(code)}: {told or 'it printed nothing'}"

    def _environment(self) -> dict[str, str]:
        hidden = {"GRADER_SEED", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"}
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        if self.gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = self.gpu
        return environment


def check_installed(root: Path) -> None:
    """Make sure that children of this interpreter know the grader's options. Raises GraderError."""
    if not any(point.value == "grader.options" for point in entry_points(group="pytest11")):
        raise GraderError(f"pytest can't find the options of `pytest grader`, as {sys.executable} has no kernel-grader "
                          f"installed: pip install -e {root}")  # fmt: skip


def cpu_slots(grader: Grader, jobs: int | None) -> list[ChildSlot]:
    """A slot a core, or `jobs` slots that share the cores evenly."""
    cores = sorted(os.sched_getaffinity(0))
    count = jobs or len(cores)
    return [ChildSlot(f"cpu{index}", grader, cores=_share(cores, index, count)) for index in range(count)]


def gpu_slots(grader: Grader, gpus: Sequence[str], jobs: int | None) -> list[ChildSlot]:
    """A slot a GPU, or `jobs` slots dealt to the GPUs in turn: values share a GPU, timing holds it alone."""
    cores = sorted(os.sched_getaffinity(0))
    count = max(jobs or 0, len(gpus))
    slots = []
    for index in range(count):
        gpu = gpus[index % len(gpus)]
        name = (f"gpu{gpu}" if gpu.isdigit() else gpu) + (f".{index // len(gpus)}" if count > len(gpus) else "")
        slots.append(ChildSlot(name, grader, cores=_share(cores, index, count), gpu=gpu))
    return slots


def find_gpus(wanted: str) -> tuple[list[str], str]:
    """The GPUs of `--gpus` and their model; none for `none`, and for `auto` where there is none. Raises GraderError."""
    if wanted == "none":
        return [], "cpu"
    query = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - of the driver
        lines = [line for line in done.stdout.splitlines() if line.count(",") > 1]  # a GPU's; others are warnings
        rows = [[cell.strip() for cell in line.split(",", 2)] for line in lines]
    except (OSError, subprocess.SubprocessError) as error:
        if wanted == "auto":
            return [], "cpu"
        raise GraderError(f"--gpus {wanted}: nvidia-smi can't be asked: {error}") from None
    models = {name: model for index, uuid, model in rows for name in (index, uuid)}
    chosen = [row[0] for row in rows] if wanted == "auto" else [gpu.strip() for gpu in wanted.split(",")]
    for gpu in chosen:
        if gpu not in models:
            raise GraderError(f"--gpus {wanted}: there is no GPU {gpu!r}; nvidia-smi has {', '.join(models) or 'none'}")
    devices = [next(uuid for index, uuid, _ in rows if gpu in (index, uuid)) for gpu in chosen]
    if len(set(devices)) < len(devices):
        raise GraderError(f"--gpus {wanted}: names one GPU twice; for more submissions at a time give --jobs")
    kinds = sorted({models[gpu] for gpu in chosen})
    if len(kinds) > 1:
        raise GraderError(f"--gpus {wanted}: are different models ({', '.join(kinds)}); a class is graded on one model")
    return chosen, kinds[0] if kinds else "cpu"


def _share(cores: Sequence[int], index: int, count: int) -> list[int]:
    """The cores of the index-th of `count` slots; slots share a core only where there are fewer cores than slots."""
    mine = [core for number, core in enumerate(cores) if number * count // len(cores) == index]
    return mine if count <= len(cores) else [cores[index % len(cores)]]


def _read(path: Path, job: Job) -> tuple[Result | None, str]:
    try:
        result = Result.model_validate_json(path.read_bytes())
    except ValidationError as error:
        return None, f"pytest grader left a result that can't be read: {error.errors()[0]['msg']}"
    if set(result.exercises) != set(job.exercises):
        return None, f"the result is of {', '.join(result.exercises) or 'nothing'}, not {', '.join(job.exercises)}"
    for name, exercise in result.exercises.items():
        for item in exercise.items:
            if item.status is Status.INFRASTRUCTURE_ERROR:
                return result, f"{name} {item.check} {item.dtype}: {item.message}"
    return result, ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The child's session is its own; its zygotes and workers watch for its end."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)


def _worst_line(text: str) -> str:
    """The last line that speaks of an error, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1][:300]


def _named(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
