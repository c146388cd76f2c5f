"""Grades one submission in a job of a cluster. Trusted side: it runs in Parsl's worker, outside the sandbox.

All that it needs travels with the task, and all that it finds goes back as plain data: no folder is shared.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from ..errors import GraderError
from . import isolation
from .installed import judge_and_references
from .slots import ChildSlot, Grader, Job


@dataclass(frozen=True)
class Work:
    """A submission to grade. The seed is left out where this is printed, as in a log."""

    submission: str
    files: Mapping[str, bytes] = field(repr=False)
    exercises: tuple[str, ...]
    rubric: bytes = field(repr=False)
    seed: int = field(repr=False)
    timeout_s: float
    device: str
    unsafe: bool
    installation: str
    program: tuple[str, ...]


class Report(TypedDict):
    """What came of it.

    `refused`: why nothing may be graded like this; `ill`: why this node should get nothing more; `node` and `job` are
    Slurm's names, else "".
    """

    result: str | None
    fault: str
    pictures: dict[str, str]
    seconds: float
    refused: str
    ill: str
    node: str
    job: str


def grade(work: Work) -> Report:
    """Grade it with a child, as on one machine, on the GPU or the cores that this job was given."""
    started = time.monotonic()
    report = Report(result=None, fault="", pictures={}, seconds=0.0, refused="", ill="",
                    node=os.environ.get("SLURMD_NODENAME", ""), job=os.environ.get("SLURM_JOB_ID", ""))  # fmt: skip
    root = Path(__file__).parents[2]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    gpu = None if work.device == "cpu" else visible
    if judge_and_references(root) != work.installation:
        report["refused"] = (
            f"{platform.node()} has another grader, torch or triton in {root} than this machine: install the same there"
        )
    elif gpu == "" or (gpu is not None and "," in gpu):
        report["refused"] = (
            f"CUDA_VISIBLE_DEVICES is {visible!r} on {platform.node()}: a worker needs one GPU of its own"
        )
    if report["refused"]:
        return report
    with tempfile.TemporaryDirectory(prefix="grader-cluster-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # for the sandbox's user
        (folder / "rubric.yaml").write_bytes(work.rubric)
        submission = folder / "submissions" / work.submission
        submission.mkdir(parents=True)
        for file, data in work.files.items():
            (submission / file).parent.mkdir(parents=True, exist_ok=True)
            (submission / file).write_bytes(data)
        try:
            options = isolation.child_options(unsafe=work.unsafe, gpu=gpu is not None)
        except GraderError as error:
            report["refused"] = f"{platform.node()}: {error}"
            return report
        grader = Grader(root, folder / "rubric.yaml", work.seed, work.timeout_s, options, work.program)
        slot = ChildSlot("worker", grader, cores=sorted(os.sched_getaffinity(0)), gpu=gpu)
        outcome = slot.run(Job(work.submission, submission, work.exercises))
        report["fault"] = outcome.fault
        report["ill"] = slot.fault() if outcome.fault else ""
        report["pictures"] = dict(outcome.pictures)
        if outcome.result is not None:
            report["result"] = outcome.result.model_dump_json(by_alias=True)
    report["seconds"] = time.monotonic() - started
    return report
