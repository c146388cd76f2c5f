"""Runs a submission's call in a forked child where launches compile, and collects what the child says.

Untrusted side. A child of its own, because compiling needs Triton changed for good, because MLIR and LLVM end the
process on some kernels, and because the worker goes on interpreting afterwards.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.cache import triton_key

from grader.worker.compiling import errors, pretend
from grader.worker.compiling.launches import Enough, Launches
from grader.worker.compiling.pristine import PRISTINE
from grader.worker.compiling.records import CallFailed, Child, CompiledKernel, CompilerUnavailable, records
from grader.worker.compiling.rewire import Rewiring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

_MAX_REPLY_BYTES = 16 * 2**20


def compile_call(
    call: Callable[[], object],
    modules: Iterable[ModuleType],
    targets: Sequence[int],
    *,
    timeout_s: float | None = None,
    gpu: dict[str, Any] | None = None,
) -> list[CompiledKernel]:
    """Runs `call` once per target with every kernel launch turned into a compilation for that target.

    `call` is the submission's entry point bound to CPU tensors, `modules` are the submission's modules, `targets` are
    compute capabilities (80, 90, …). No kernel runs, but host code does: in a child, whose writes reach only shared
    memory, so don't bind tensors of the arena. Kernels are cached below TRITON_CACHE_DIR. The result is in order of
    launch, target by target, and empty where nothing was launched; a host error after the first launch is dropped.
    After `timeout_s` the child is killed, and the kernel that was being compiled is reported as too slow to compile:
    a block of 2^20 elements takes a minute and more.

    With `gpu` (name, multiprocessors, max_configs: the configurations to compile of each tuned launch) host code sees
    that GPU, `call` is bound to tensors on the device `meta`, so that sizes cost nothing, and the records have details.

    Raises `CallFailed` where host code broke off before anything was compiled and `CompilerUnavailable` where the
    compiler could not run.
    """
    prepare(targets)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of forking with threads about. The child takes no lock that they could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _child(call, modules, targets, gpu, writer)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        reply, in_time = _read(pipe, timeout_s)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # also what it may have left running
    _, status = os.waitpid(pid, 0)
    ending = _ending(os.waitstatus_to_exitcode(status)) if in_time else f"had not finished after {timeout_s:g} s"
    return _verdict(reply, ending)


def _read(pipe: io.FileIO, timeout_s: float | None) -> tuple[bytes, bool]:
    """What the child says until it ends, and whether that was in time."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    reply = b""
    while len(reply) < _MAX_REPLY_BYTES:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([pipe], [], [], left)[0]:
            return reply, False
        if not (chunk := pipe.read(65536)):
            break
        reply += chunk
    return reply, True


def prepare(targets: Iterable[int] = ()) -> None:
    """Reads once per process what every compilation needs: hashes of Triton's own files and the version of ptxas.

    Takes 0.4 s; a process that forks workers calls it first, so that none of them has to. Raises
    `CompilerUnavailable`.
    """
    try:
        triton_key()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Triton 3.9 tells of a default that is going to change
            for target in targets:
                backend = make_backend(GPUTarget("cuda", target, 32))
                backend.hash()
                backend.parse_options({}).hash()
    except (OSError, subprocess.SubprocessError) as error:
        raise CompilerUnavailable(f"{type(error).__name__}: {error}") from error


def _verdict(reply: bytes, ending: str) -> list[CompiledKernel]:
    child = Child()
    for line in reply.splitlines():
        with suppress(json.JSONDecodeError):  # a line that was cut short by the child's end
            child.take(json.loads(line))
    if child.unavailable is not None:
        raise CompilerUnavailable(child.unavailable)
    if child.pending is not None:
        child.rows.append({**child.pending, "error": f"the compiler {ending} on this kernel"})
    if not child.rows and child.raised is not None:
        raise CallFailed(child.raised["message"], child.raised["file"], child.raised["line"])
    if not child.rows and not child.done:
        raise CallFailed(f"the call {ending} before a kernel was launched")
    return records(child.rows)


def _ending(exit_code: int) -> str:
    if exit_code < 0:
        return f"crashed ({signal.Signals(-exit_code).name})"
    return f"ended the process with exit status {exit_code}"


def _child(
    call: Callable[[], object],
    modules: Iterable[ModuleType],
    targets: Sequence[int],
    gpu: dict[str, Any] | None,
    writer: int,
) -> None:
    def send(message: dict[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        while line:
            line = line[os.write(writer, line) :]

    done = False
    os.setpgid(0, 0)
    try:
        _compile_all(call, modules, targets, gpu, send)
        send({"kind": "done"})
        done = True
    finally:
        if not done:
            send({"kind": "unavailable", "message": traceback.format_exc()})
        # Never back into the worker's stack, and none of its exit handlers.
        os._exit(0 if done else 1)


def _compile_all(
    call: Callable[[], object],
    modules: Iterable[ModuleType],
    targets: Sequence[int],
    gpu: dict[str, Any] | None,
    send: Callable[[dict[str, Any]], None],
) -> None:
    log = Log()
    # The fork left torch's worker threads behind; a parallel loop would wait for them for ever.
    torch.set_num_threads(1)
    os.environ.pop("TRITON_INTERPRET", None)
    rewiring = Rewiring(PRISTINE.restore())
    try:
        for module in modules:
            rewiring.module(module)
        call = rewiring.replace(call)
    except CallFailed as error:
        send({"kind": "raised", "message": error.message, "file": error.file, "line": error.line})
        return
    launches = Launches(send, log.take, rewiring.files)
    launches.take_over(rewiring.jits)
    for target in targets:
        launches.aim(target, gpu)
        if gpu is not None:
            pretend.see(target, gpu)
        try:
            with pretend.PretendedTensors() if gpu else nullcontext():
                call()
        except Enough:
            continue
        except BaseException as error:  # noqa: BLE001 - a submission may raise anything, SystemExit too
            found = errors.raised_line(error, rewiring.files)
            message = f"{type(error).__name__}: {errors.clean(errors.text_of(error))}"
            send({"kind": "raised", "message": message, "file": errors.file_name(found.file), "line": found.line})


class Log:
    """What this process prints, by Python or by C++, kept from the worker's own output."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._fd = self._file.fileno()
        for stream in (1, 2):
            os.dup2(self._fd, stream)
        self._stream = os.fdopen(os.dup(self._fd), "w", errors="replace")
        sys.stdout = sys.stderr = self._stream

    def take(self) -> str:
        """What was printed since the last call."""
        self._stream.flush()
        size = os.lseek(self._fd, 0, os.SEEK_CUR)
        text = os.pread(self._fd, size, 0).decode(errors="replace")
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        return text
