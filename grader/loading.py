"""Trusted side: a worker with a submission's file imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from .failures import gone_verdict, load_verdict
from .runner import Worker, WorkerGone
from .submission import Sources
from .verdict import Status, Verdict
from .zygote import Zygote


def load_message(
    worker: Worker, file: str, entry: str, environment: Mapping[str, str] | None = None, plant: str = ""
) -> dict[str, Any]:
    """What has a worker import a file of its folder, in a changed environment, and find the entry point."""
    return {"kind": "load", "root": str(worker.folder), "file": file, "entry": entry,
            "environment": dict(environment or {}), "plant": plant}  # fmt: skip


def open_worker(
    zygote: Zygote,
    sources: Sources | None,
    file: str,
    entry: str,
    timeout_s: float,
    *,
    private_cache: bool = False,
    optimised: bool = True,
    plant: Literal["", "simulated", "real"] = "",
) -> Worker | Verdict:
    """A fresh worker with the file imported and the entry point found, or the verdict on why there is none.

    Without `optimised` the assembler turns a kernel for a GPU into machine code as Triton wrote it.
    `plant` has the worker make a planted workload ready, on a simulated or a real device, before the import.
    """
    if sources is None:
        return Verdict(Status.NOT_IMPLEMENTED, f"the submission has no {file}",
                       f"Write {file} with a function {entry}.")  # fmt: skip
    worker = zygote.fork()
    sources.stage(worker.folder)
    environment = {} if optimised else {"DISABLE_PTXAS_OPT": "1"}  # Triton looks it up whenever it compiles
    if private_cache and zygote.sandbox.level == "L0":  # in a sandbox it is private at any rate
        environment |= dict.fromkeys(("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"), str(worker.folder))
    message = load_message(worker, sources.main, entry, environment, plant)
    reply = worker.request(message, timeout_s + zygote.worker_start_s)
    if not isinstance(reply, WorkerGone) and reply.get("kind") == "loaded":
        return worker
    verdict = (
        gone_verdict(reply, worker, timeout_s) if isinstance(reply, WorkerGone) else load_verdict(reply, file, entry)
    )
    worker.close()
    return verdict
