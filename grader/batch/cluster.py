"""A cluster's slots: each sends one submission at a time to Parsl's workers, in jobs of Slurm or what Parsl supports.

Trusted side. Needs the extra `cluster`. Only the coordinator knows the ledger; workers give data back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import parsl
from parsl.addresses import address_by_hostname, address_by_route
from parsl.dataflow.dflow import DataFlowKernel
from parsl.executors import HighThroughputExecutor
from parsl.executors.status_handling import BlockProviderExecutor
from parsl.jobs.states import JobState, JobStatus
from parsl.launchers import SimpleLauncher
from parsl.providers import SlurmProvider
from pydantic import ValidationError

from ..errors import ClusterError, GraderError
from ..result import Result
from .cluster_file import ParslFile, Slurm
from .installed import judge_and_references
from .remote import Report, Work, grade
from .slots import Grader, Job, Outcome

POLL_S = 5
HEARTBEAT_S = 5
LOST_S = 40  # without a heartbeat for so long a block is taken to be gone, and what it graded is graded again
STILLBORN = 3  # so many blocks in a row that end before a worker reports: the file is wrong, not the cluster


class Cluster:
    """The slots of a file of `--cluster`. The jobs are there while it is `running`."""

    def __init__(self, path: Path, file: Slurm | ParslFile, grader: Grader, log: Path, *, unsafe: bool,
                 jobs: int | None) -> None:  # fmt: skip
        self._path, self._file, self._log = path, file, log
        if isinstance(file, Slurm):
            check_slurm(path, file, grader.timeout_s)
        self.slots = [ClusterSlot(f"cluster{index}", self) for index in range(jobs or _capacity(file))]
        self._grader = grader
        self._rubric = grader.rubric.read_bytes()
        self._unsafe = unsafe
        self._installation = judge_and_references(grader.root)
        self._kernel: Any = None
        self._excluded: set[str] = set()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Start Parsl; afterwards no job of it is left in the queue, whatever ended the run."""
        # Jobs may inherit the environment of the process that submits them.
        os.environ.pop("GRADER_SEED", None)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_warnings_in(self._log))
            if isinstance(self._file, Slurm):
                folder = stack.enter_context(_private_folder(self._path, self._file.shared))
                config = slurm_config(self._file, folder, self._grader)
            else:
                config = self._file.config
            try:
                self._kernel = DataFlowKernel(config)
            except Exception as error:  # noqa: BLE001 - whatever a provider or the network raises
                raise ClusterError(self._path, None, f"Parsl can't start: {type(error).__name__}: {error}") from None
            stack.callback(self._end)
            yield

    def submit(self, job: Job) -> Future[Report]:
        """Send a submission with all that its grading needs."""
        files = {
            str(path.relative_to(job.folder)): path.read_bytes() for path in job.folder.rglob("*") if path.is_file()
        }
        grader = self._grader
        work = Work(job.submission, files, job.exercises, self._rubric, grader.seed, grader.timeout_s,
                    self._file.device, self._unsafe, self._installation, grader.program)  # fmt: skip
        future: Future[Report] = self._kernel.submit(grade, app_args=(work,), executors="all", cache=False,
                                                     ignore_for_cache=None, app_kwargs={})  # fmt: skip
        return future

    def outcome(self, report: Report) -> Outcome:
        """Read what a worker gave back. Raises ClusterError where it says that nothing should be graded there."""
        if report["refused"]:
            raise ClusterError(self._path, None, report["refused"])
        fault, result = report["fault"], None
        if report["result"] is not None:
            try:
                result = Result.model_validate_json(report["result"])
            except ValidationError as error:
                fault = f"a worker gave a result that can't be read: {error.errors()[0]['msg']}"
            else:
                device = result.environment.device
                if device != self._file.device:
                    wrong = f"device: is {self._file.device!r}, but a job graded on {device!r}; correct it"
                    raise ClusterError(self._path, None, wrong)
        if report["ill"]:
            self._exclude(report)
            fault = f"{fault}; {report['node'] or 'its node'} gets no more submissions: {report['ill']}"
        return Outcome(None if fault else result, fault, report["seconds"], report["pictures"])

    def fault(self) -> str:
        """Why nothing can be graded here any more, "" where it can."""
        broken = [one for one in self._executors() if one.bad_state_is_set]
        return str(broken[0].executor_exception) if broken else ""

    def _exclude(self, report: Report) -> None:
        """End the job whose GPU is ill, and ask for none on its node again."""
        for executor in self._executors():
            provider = executor.provider
            if isinstance(provider, SlurmProvider) and report["job"] in provider.resources:
                with self._lock:
                    if report["node"] not in self._excluded:
                        self._excluded.add(report["node"])
                        provider.scheduler_options += f"#SBATCH --exclude={','.join(sorted(self._excluded))}\n"
                    provider.cancel([report["job"]])

    def _executors(self) -> list[Any]:
        """Those that run jobs; Parsl adds one of its own to those of the file."""
        return [one for one in self._kernel.executors.values() if isinstance(one, BlockProviderExecutor)]

    def _end(self) -> None:
        executors = self._executors()
        try:
            self._kernel.cleanup()
        finally:
            # Parsl leaves the blocks of an executor that it gave up.
            for executor in executors:
                resources: Mapping[str, Mapping[str, JobStatus]] = getattr(executor.provider, "resources", {})
                left = [name for name, one in resources.items() if not one["status"].terminal]
                if left:
                    executor.provider.cancel(left)


class ClusterSlot:
    """Keeps one submission at a time on its way; which worker takes it is the cluster's choice."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name = name
        self._cluster = cluster
        self._stopped = threading.Event()

    def run(self, job: Job) -> Outcome:
        """Grade a submission; the time in the queue counts to no limit."""
        started = time.monotonic()
        if self._stopped.is_set():
            return Outcome(None, "stopped", 0.0)
        future = self._cluster.submit(job)
        while not wait([future], timeout=1).done:
            if self._stopped.is_set():
                return Outcome(None, "stopped", time.monotonic() - started)
        error = future.exception()
        if error is not None:
            said = str(error).strip() or type(error).__name__
            return Outcome(None, f"the cluster lost it: {said}", time.monotonic() - started)
        return self._cluster.outcome(future.result())

    def fault(self) -> str:
        """Why the cluster takes nothing more; a lost worker or job is replaced and no reason."""
        return "" if self._stopped.is_set() else self._cluster.fault()

    def stop(self) -> None:
        """Wait no longer; the jobs end with the cluster."""
        self._stopped.set()


class PolledSlurm(SlurmProvider):  # type: ignore[misc]
    """Slurm, asked for its jobs more often than once a minute: a lost job is soon replaced."""

    @property
    def status_polling_interval(self) -> int:
        """Seconds between questions."""
        return POLL_S


def slurm_config(slurm: Slurm, folder: Path, grader: Grader) -> Any:
    """Parsl's configuration. A job is a block with one worker, which is why it asks for one GPU."""
    scripts = Path(sys.executable).parent
    init = [f"module load {' '.join(slurm.modules)}"] if slurm.modules else []
    init += [f"export PATH={scripts}:$PATH", f"export PYTHONPATH={grader.root}${{PYTHONPATH:+:$PYTHONPATH}}"]
    init.append(slurm.worker_init)
    provider = PolledSlurm(
        partition=slurm.partition, account=slurm.account, qos=slurm.qos, constraint=slurm.constraint, gres=slurm.gres,
        cores_per_node=slurm.cpus, mem_per_node=slurm.memory_gib, walltime=slurm.walltime, exclusive=False,
        scheduler_options="\n".join(f"#SBATCH {option}" for option in slurm.options), worker_init="\n".join(init),
        init_blocks=0, min_blocks=0, max_blocks=slurm.blocks, launcher=SimpleLauncher(), cmd_timeout=60,
    )  # fmt: skip
    executor = HighThroughputExecutor(
        label="slurm", provider=provider, address=slurm.address or _own_address(), max_workers_per_node=1,
        available_accelerators=[],  # Slurm names the GPU; a name from here would overwrite it
        cores_per_worker=slurm.cpus, heartbeat_period=HEARTBEAT_S, heartbeat_threshold=LOST_S,
        drain_period=max(1, int(slurm.walltime_s - grader.timeout_s - LOST_S)),
        interchange_launch_cmd=_interchange(scripts), encrypted=True, block_error_handler=give_up,
    )  # fmt: skip
    return parsl.Config(executors=[executor], run_dir=str(folder), retries=0, strategy="htex_auto_scale",
                        strategy_period=POLL_S, usage_tracking=0, initialize_logging=False)  # fmt: skip


def give_up(executor: BlockProviderExecutor, status: Mapping[str, JobStatus]) -> None:
    """Called with every poll: fail everything where the last blocks all ended before a worker of theirs reported.

    Blocks that are cancelled or killed later are replaced, however many there are.
    """
    last = [status[name] for name in sorted(status, key=int)][-STILLBORN:]
    if (
        len(last) < STILLBORN
        or executor.bad_state_is_set
        or any(one.state not in (JobState.FAILED, JobState.MISSING) for one in last)
    ):
        return
    said = (last[-1].stderr_summary or "").strip() or (last[-1].message or "").strip()
    # The last lines say what is wrong with a job that Slurm refused, or with the script of one that ran.
    tail = " / ".join(line.strip() for line in said.splitlines()[-3:])
    executor.set_bad_state_and_fail_all(GraderError(f"{STILLBORN} jobs in a row ended before they could grade: {tail}"))


def check_slurm(path: Path, slurm: Slurm, timeout_s: float) -> None:
    """Raise ClusterError where the file can't work with this machine or these options."""
    if shutil.which("sbatch") is None:
        raise ClusterError(path, None, "sbatch is not on the PATH here; run grader batch on a login node of Slurm")
    if slurm.walltime_s <= timeout_s + LOST_S:
        raise ClusterError(path, None, f"walltime: {slurm.walltime} is not longer than one submission may take, "
                           f"--timeout {timeout_s:g} s; raise the one or lower the other")  # fmt: skip


def _capacity(file: Slurm | ParslFile) -> int:
    if isinstance(file, Slurm):
        return file.blocks
    count = 0
    for executor in file.config.executors:
        provider = getattr(executor, "provider", None)
        blocks = provider.max_blocks * provider.nodes_per_block if provider else 1
        count += int(blocks * getattr(executor, "workers_per_node", getattr(executor, "max_threads", 1)))
    return max(1, count)


@contextlib.contextmanager
def _warnings_in(file: Path) -> Iterator[None]:
    """Keep what Parsl warns of, with its tracebacks, in a file; without a handler Python would print it."""
    file.unlink(missing_ok=True)
    handler = logging.FileHandler(file, delay=True)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("parsl")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def _private_folder(path: Path, shared: Path) -> Iterator[Path]:
    """A folder for certificates, scripts and logs of the jobs, which nobody else may read."""
    try:
        shared = shared.expanduser().resolve()
        shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=shared))
    except OSError as error:
        raise ClusterError(path, None, f"shared: {error.filename or shared}: {error.strerror or error}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _interchange(scripts: Path) -> list[str]:
    """Parsl's broker. Ctrl-C does not reach it, as it is needed to cancel the jobs; it ends with the coordinator."""
    wrap = ["setsid", "setpriv", "--pdeathsig", "KILL"] if shutil.which("setsid") and shutil.which("setpriv") else []
    return [*wrap, str(scripts / "interchange.py")]


def _own_address() -> str:
    try:
        return str(address_by_route())
    except OSError:
        return str(address_by_hostname())
