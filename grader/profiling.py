"""Trusted side: where the time of a call goes on a GPU: its kernels, rates, and NVIDIA's profilers. Awards no points.

What is profiled runs in a child process of its own (`grader/worker/profiled.py`); this side starts it, by itself or
under a profiler, and reads what it leaves behind.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reference.exercise import Case, Cost, Exercise

from .errors import GraderError, SelectionError
from .hardware import Gpu
from .judge import call_arguments
from .kernel_names import parse_name
from .players import NVTX_DOMAIN

MAX_NAME = 4000  # characters of a kernel's name: what comes from the child is bounded
Mode = Literal["range", "torch", "sweep"]


class Tool(StrEnum):
    """What can profile: PyTorch itself, or NVIDIA's Nsight Compute and Nsight Systems."""

    TORCH = "torch"
    NCU = "ncu"
    NSYS = "nsys"


_WHERE: Mapping[str, tuple[str, ...]] = {
    "ncu": ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu"),
    "nsys": ("/usr/local/cuda*/bin/nsys", "/opt/nvidia/nsight-systems/*/bin/nsys"),
}
_PRODUCTS = {"ncu": "Nsight Compute", "nsys": "Nsight Systems"}
# What the profilers print when they could not do their work, and what to do.
_COMPLAINTS = {
    "ERR_NVGPUCTRPERM": "the driver lets only administrators read performance counters: run as root, or have the "
    "module option NVreg_RestrictProfilingToAdminUsers=0 set",
    "No kernels were profiled": "no kernel ran inside the range; the submission may launch from another process or not "
    "at all",
}


class ProfilingError(GraderError):
    """Profiling could not be done here, or what was profiled failed."""


class KernelTime(BaseModel):
    """Launches of one kernel with one grid in one call: their number, and their time together in µs."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(max_length=MAX_NAME)
    says: str
    launches: int
    time_us: float
    share: float
    grid: list[int]
    block: list[int]
    registers: int | None
    shared_bytes: int | None


@dataclass(frozen=True)
class Roofline:
    """What a call reaches of what the GPU could do. Rates in GB/s and TFLOP/s, intensities in FLOP a byte."""

    time_us: float
    least_us: float
    gb_s: float
    tflop_s: float
    intensity: float
    ridge: float
    bound: Literal["memory", "arithmetic"]

    @property
    def share(self) -> float:
        """The part of the GPU's limit that is reached."""
        return self.least_us / self.time_us


def roofline(cost: Cost, dtype: str, time_us: float, gpu: Gpu) -> Roofline:
    """Where a call lies under the roofline of a GPU (Williams, Waterman and Patterson 2009)."""
    bytes_us = cost.bytes_moved / gpu.bandwidth_gb_s / 1e3
    flops_us = cost.flops / gpu.tflop_s[dtype] / 1e6
    return Roofline(
        time_us=time_us,
        least_us=max(bytes_us, flops_us),
        gb_s=cost.bytes_moved / time_us / 1e3,
        tflop_s=cost.flops / time_us / 1e6,
        intensity=cost.flops / cost.bytes_moved,
        ridge=gpu.tflop_s[dtype] * 1e3 / gpu.bandwidth_gb_s,
        bound="memory" if bytes_us >= flops_us else "arithmetic",
    )


def request(mode: Mode, file: Path, entry: str, label: str, exercise: Exercise, cases: Sequence[Case],
            out: Path) -> dict[str, Any]:  # fmt: skip
    """What the child is to do."""
    arguments = []
    for case in cases:
        tensors = [{"dtype": case.dtype, "shape": list(spec.shape)} for spec in case.tensors]
        arguments.append(call_arguments(exercise, case, tensors)["arguments"])
    return {"mode": mode, "file": str(file.resolve()), "entry": entry, "label": label, "cases": arguments,
            "out": str(out.resolve())}  # fmt: skip


def child_command(wanted: Mapping[str, Any]) -> list[str]:
    """The command that runs what is profiled."""
    return [sys.executable, "-P", "-m", "grader.worker.profiled", json.dumps(wanted, separators=(",", ":"))]


def profiler_command(tool: Tool, program: str, label: str, child: Sequence[str], out: Path) -> list[str]:
    """The command that has NVIDIA's profiler look at exactly the range of this label."""
    if tool == "ncu":
        # A locked clock would show another machine than the one that is graded on.
        return [program, "--nvtx", "--nvtx-include", f"{NVTX_DOMAIN}@{label}/", "--clock-control", "none", *child]
    return [
        program, "profile", "--trace=cuda,nvtx", "--capture-range=nvtx", f"--nvtx-capture={label}@{NVTX_DOMAIN}",
        "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0", "--capture-range-end=stop", "--stats=true",
        "--force-overwrite=true", f"--output={out / label}", *child,
    ]  # fmt: skip


def find_tool(tool: Tool) -> str:
    """The path of a profiler. Raises ProfilingError that says what to install."""
    if found := shutil.which(tool):
        return found
    places = [path for pattern in _WHERE[tool] for path in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)]
    if places:
        return str(places[0])
    raise ProfilingError(
        f"--tool {tool}: {tool} is not on PATH nor in {' or '.join(_WHERE[tool])}; it is part of NVIDIA "
        f"{_PRODUCTS[tool]}, which the CUDA toolkit contains. `--tool torch` needs nothing beside PyTorch"
    )


def shown(command: Sequence[str]) -> str:
    """A command as it can be pasted into a shell."""
    return f"PYTHONPATH={shlex.quote(_environment()['PYTHONPATH'])} {shlex.join(command)}"


def _environment() -> dict[str, str]:
    """The judge's own, since profiling happens on the machine of whoever asks for it, with the grader to be found."""
    root = str(Path(__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}


def run_child(command: Sequence[str], timeout_s: float) -> None:
    """Run a command that prints nothing of worth. Raises ProfilingError with its last words where it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and code
            command, env=_environment(), capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise ProfilingError(f"the profiled call had not finished after {timeout_s:g} s") from None
    if done.returncode != 0:
        raise ProfilingError(f"the profiled call failed: {_last_words(done.stderr, done.returncode)}")


def run_profiler(command: Sequence[str]) -> str:
    """Run a profiler and pass on what it prints; gives all of it. Raises ProfilingError where it could not profile."""
    told: list[str] = []
    with subprocess.Popen(  # noqa: S603 - the profiler that was asked for
        command, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            told.append(line)
    text = "".join(told)
    for sign, meaning in _COMPLAINTS.items():
        if sign in text:
            raise ProfilingError(meaning)
    if process.returncode != 0:
        raise ProfilingError(f"the profiler ended with exit status {process.returncode}")
    return text


def _last_words(stderr: str, code: int) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    places = [line.strip() for line in lines if line.lstrip().startswith("File ") and "/grader/" not in line]
    said = lines[-1].strip() if lines else f"exit status {code}"
    return f"{said} ({places[-1]})" if places else said


def read_trace(text: str) -> list[KernelTime]:
    """The kernels in a trace of torch.profiler, those that take longest first. Raises ProfilingError."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    try:
        for event in json.loads(text)["traceEvents"]:
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and event.get("ph") == "X":
                key = (str(event["name"]), str(event.get("args", {}).get("grid", "")))
                found.setdefault(key, []).append({**event.get("args", {}), "dur": float(event["dur"])})
        total_us = sum(each["dur"] for events in found.values() for each in events)
        kernels = [_kernel_time(name, events, total_us) for (name, _), events in found.items()]
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError) as error:
        raise ProfilingError(f"the profiler's trace can't be read: {error}") from None
    return sorted(kernels, key=lambda kernel: -kernel.time_us)


def _kernel_time(name: str, events: Sequence[Mapping[str, Any]], total_us: float) -> KernelTime:
    time_us = sum(each["dur"] for each in events)
    first = events[0]
    return KernelTime(
        name=name[:MAX_NAME],
        says=str(parse_name(name[:MAX_NAME])),
        launches=len(events),
        time_us=time_us,
        share=time_us / total_us if total_us else 0.0,
        grid=first.get("grid", []),
        block=first.get("block", []),
        registers=first.get("registers per thread"),
        shared_bytes=first.get("shared memory"),
    )


def read_times(path: Path, count: int) -> list[float | None]:
    """The times that the child measured, in µs. Raises ProfilingError."""
    try:
        times = json.loads(path.read_text())
        if len(times) != count:
            raise ValueError(f"{len(times)} times in place of {count}")
        return [None if each is None else float(each) for each in times]
    except (OSError, TypeError, ValueError) as error:
        raise ProfilingError(f"the child's times can't be read: {error}") from None


def no_gpu(exercise_id: str) -> SelectionError:
    """What to say where there is no GPU."""
    return SelectionError(
        "profiling needs an NVIDIA GPU and PyTorch built for CUDA; `grader doctor` says what is missing here, and "
        f"`grader inspect {exercise_id}` what the compiler made of the kernels, without a GPU"
    )
