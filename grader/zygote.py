"""Trusted side: the process that has imported torch and Triton and forks the workers.

It is started on first use, and again when it has died; one that can't be kept alive is an InfrastructureError.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from typing import Any

from . import launch, protocol
from .arena import Arena, HostMemory, Memory
from .cgroup import Cgroup
from .errors import InfrastructureError
from .home import Home
from .launch import Mode
from .rubric import Limits
from .runner import Worker
from .sandbox import Sandbox, first_uid, uid_of

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
GPU_START_S = 30.0  # a CUDA context takes a fraction of a second, much longer when many are made at a time
ARENA_BYTES = 64 << 20
# A submission's open files may grow to this; its output goes through a pipe and is bounded by `output_kib`.
FILE_BYTES = 256 << 20
# CUDA's own bookkeeping counts as the process's data.
GPU_EXTRA_MEMORY_MIB = 12 << 10
# Beyond what workers may use: the zygote itself, and how many workers there may be at a time.
ZYGOTE_BYTES = 1 << 30
MOST_WORKERS = 8


class Zygote:
    """The fork server's process, started on first use and again whenever it has died."""

    def __init__(self, limits: Limits, mode: Mode = "interpreter", *, spawn: bool = False,
                 sandbox: Sandbox | None = None, baselines: bool = False) -> None:  # fmt: skip
        """With `baselines`, workers can import `reference`."""
        self.limits = limits
        self.mode = mode
        self.spawn = spawn
        self.sandbox = sandbox or Sandbox()
        self.versions: dict[str, str] = {}
        self._baselines = baselines
        self._first_uid = first_uid()
        self._group: Cgroup | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._decoder = protocol.Decoder()
        self._exited: dict[int, int] = {}
        self._workers = 0
        self._lost = 0
        self._closed = False
        self._home: Home | None = None
        # Kernels are compiled in a second thread; one exchange on the control socket at a time.
        self._lock = threading.RLock()

    def start(self) -> None:
        """Launch the process without waiting for it: importing torch takes seconds that the judge can use."""
        limits = self._limits()
        memory_bytes = limits["memory_bytes"] * MOST_WORKERS + ZYGOTE_BYTES
        processes = limits["processes"] * MOST_WORKERS
        early = launch.take_early(self.sandbox) if self._is_usual and self._home is None else None
        launched = early
        if launched is None:
            # Anew for each process: without a sandbox, workers of the last one could have changed its copy of the code.
            if self._home is not None:
                self._home.close()
            home = Home(with_reference=self._baselines)
            group = self.sandbox.group(memory_bytes, processes)
            launched = launch.start(home, self.mode, self.sandbox, group, spawn=self.spawn)
        self._home, self._process, self._control = launched.home, launched.process, launched.control
        self._group = launched.group
        if early is not None and early.group is not None:  # made before the rubric's limits were known
            try:
                early.group.limit(memory_bytes, processes)
            except OSError as error:
                raise InfrastructureError(f"the workers' limits can't be set: {error}") from None
        self._decoder, self._exited = protocol.Decoder(), {}
        self._lost = self._workers

    @property
    def _is_usual(self) -> bool:
        """Whether it is the one that is launched before anything is known of the run."""
        return self.mode == "interpreter" and not self.spawn and not self._baselines

    @property
    def worker_start_s(self) -> float:
        """How long a worker may take beyond its work before it answers for the first time."""
        if self.spawn:
            return START_TIMEOUT_S
        return GPU_START_S if self.mode == "gpu" else 0.0

    def close(self) -> None:
        """End the process and all workers, and remove its folder. No worker is forked afterwards."""
        with self._lock:
            self._closed = True
            self._end()
        if self._home is not None:
            self._home.close()

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_S)
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._group is not None:
            self._group.close()
            self._group = None

    def ready(self) -> None:
        """Wait until the process has imported everything. Raises InfrastructureError with its last words."""
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            self.start()
            self.versions = {}
        if not self.versions:
            message = self._next_control(START_TIMEOUT_S)
            if message is None or message.get("kind") != "ready":
                raise InfrastructureError(f"the worker process did not start:\n{self.last_words()}")
            self.versions = {key: str(value) for key, value in message.items() if key != "kind"}

    def last_words(self) -> str:
        """The end of the process's stderr."""
        with contextlib.suppress(OSError):
            return self._home.log.read_text(errors="replace")[-3000:] if self._home is not None else ""
        return ""

    def fork(self) -> Worker:
        """A fresh worker. Tries once more with a new zygote where the old one has died."""
        with self._lock:
            for attempt in (1, 2):
                if self._closed:
                    raise InfrastructureError("the run is ending")
                self.ready()
                try:
                    return self._fork()
                except InfrastructureError:
                    self._end()
                    if attempt == 2:
                        raise
        raise AssertionError

    def _fork(self) -> Worker:
        assert self._control is not None
        self._workers += 1
        number = self._workers
        arena = Arena(self._memory(ARENA_BYTES))
        ours, theirs = socket.socketpair()
        output_read, output_write = os.pipe()
        uid = uid_of(self._first_uid, number) if self.sandbox.drops_uid else None
        assert self._home is not None
        folder = self._home.worker_folder(uid)
        try:
            message: dict[str, Any] = {
                "kind": "fork",
                "worker": number,
                "limits": self._limits(),
                "arena_size": arena.size,
                "folder": str(folder),
                "uid": uid or 0,
            }
            protocol.send(self._control, message, (theirs.fileno(), arena.fd, output_write))
            while (answer := self._next_control(STOP_TIMEOUT_S)) is not None:
                if answer.get("kind") == "forked" and answer.get("worker") == number:
                    return Worker(self, number, ours, arena, output_read, folder)
        except OSError:
            pass
        finally:
            theirs.close()
            os.close(output_write)
        ours.close()
        os.close(output_read)
        arena.close()
        raise InfrastructureError(f"the worker process could not be forked:\n{self.last_words()}")

    def _memory(self, size: int) -> Memory:
        if self.mode == "interpreter":
            return HostMemory(size)
        from .gpu import GpuMemory

        return GpuMemory(size)

    def _limits(self) -> dict[str, int]:
        extra = GPU_EXTRA_MEMORY_MIB if self.mode == "gpu" else 0
        return {
            "memory_bytes": (self.limits.memory_mib + extra) << 20,
            "processes": self.limits.processes,
            "file_bytes": FILE_BYTES,
            "cpu_s": self.limits.cpu_s,
            "tmp_bytes": self.limits.tmp_mib << 20,
        }

    def pause(self, number: int, *, paused: bool) -> None:
        """Stop a worker's processes, or let them go on: while the baseline is timed nothing else may run."""
        with self._lock, contextlib.suppress(OSError):
            if self._control is not None:
                protocol.send(self._control, {"kind": "pause" if paused else "resume", "worker": number})
                self._await("paused" if paused else "resumed", number)

    def _await(self, kind: str, number: int) -> None:
        while (message := self._next_control(STOP_TIMEOUT_S)) is not None:
            if message.get("kind") == kind and message.get("worker") == number:
                return

    def stop(self, number: int) -> int | None:
        """Kill a worker and everything it started; its exit code once it is gone, None if that can't be told."""
        with self._lock:
            if number > self._lost and number not in self._exited and self._control is not None:
                with contextlib.suppress(OSError):
                    protocol.send(self._control, {"kind": "stop", "worker": number})
            return self.exit_code(number, STOP_TIMEOUT_S)

    def exit_code(self, number: int, timeout_s: float) -> int | None:
        """The exit code of a worker that ends by itself within the time."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            if number <= self._lost:  # it died with the process that forked it
                return -signal.SIGKILL
            while number not in self._exited:
                if self._next_control(max(0.0, deadline - time.monotonic())) is None:
                    return None
            return self._exited[number]

    def _next_control(self, timeout_s: float) -> protocol.Message | None:
        """The next message of the zygote; None when it has died or the time is over."""
        if self._control is None:
            return None
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                message = self._decoder.next_message()
                if message is not None:
                    if message.get("kind") == "exited":
                        self._exited[message["worker"]] = message["code"]
                    return message
                self._control.settimeout(max(0.001, deadline - time.monotonic()))
                data = self._control.recv(1 << 16)
            except (OSError, protocol.ProtocolError):
                return None
            finally:
                self._control.settimeout(None)
            if not data:
                return None
            self._decoder.feed(data)
