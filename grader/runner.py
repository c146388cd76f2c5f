"""Trusted side: starts the zygote, has it fork workers, and talks to them with timeouts.

Whatever a worker does ends here as a `Reply` or as a `WorkerGone`; a zygote that can't be kept alive is an
InfrastructureError. Nothing that a worker sends is believed beyond its form.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from . import protocol
from .arena import Arena
from .errors import InfrastructureError
from .rubric import Limits

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
ARENA_BYTES = 64 << 20
# A submission's open files may grow to this; its output goes through a pipe and is bounded by `output_kib`.
FILE_BYTES = 256 << 20

_PACKAGE = Path(__file__).parent


@dataclass(frozen=True)
class WorkerGone:
    """A worker ended without answering. `code` is its exit code, or minus the signal that killed it."""

    timed_out: bool
    code: int | None
    malformed: str = ""


class Zygote:
    """The fork server's process, started on first use and again whenever it has died."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.versions: dict[str, str] = {}
        self._home = Path(tempfile.mkdtemp(prefix="grader-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._decoder = protocol.Decoder()
        self._exited: dict[int, int] = {}
        self._workers = 0
        self._closed = False
        # Kernels are compiled in a second thread; one exchange on the control socket at a time.
        self._lock = threading.RLock()
        _copy_worker_code(self._home / "code")

    def start(self) -> None:
        """Launch the process without waiting for it: importing torch takes seconds that the judge can use."""
        ours, theirs = socket.socketpair()
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self._home),
            "TMPDIR": str(self._home),
            "TRITON_CACHE_DIR": str(self._home / "triton"),
            "TRITON_INTERPRET": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        # -I: no user site, no PYTHON* variables, no script folder on the path. The code's copy is put there instead,
        # so that the worker finds `grader.worker` and not `reference`.
        code = str(self._home / "code")
        boot = f"import sys; sys.path.insert(0, {code!r}); from grader.worker import zygote; zygote.main()"
        with theirs, (self._home / "zygote.log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-I", "-c", boot, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self._home,
                env=environment,
            )
        self._control, self._decoder, self._exited = ours, protocol.Decoder(), {}

    def close(self) -> None:
        """End the process and all workers, and remove its folder. No worker is forked afterwards."""
        with self._lock:
            self._closed = True
            self._end()
        shutil.rmtree(self._home, ignore_errors=True)

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
            return (self._home / "zygote.log").read_text(errors="replace")[-3000:]
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
        arena = Arena(ARENA_BYTES)
        ours, theirs = socket.socketpair()
        output_read, output_write = os.pipe()
        limits = {"memory_bytes": self.limits.memory_mib << 20, "processes": self.limits.processes,
                  "file_bytes": FILE_BYTES}  # fmt: skip
        try:
            protocol.send(self._control, {"kind": "fork", "worker": number, "limits": limits},
                          (theirs.fileno(), arena.fd, output_write))  # fmt: skip
            while (message := self._next_control(STOP_TIMEOUT_S)) is not None:
                if message.get("kind") == "forked" and message.get("worker") == number:
                    folder = Path(tempfile.mkdtemp(prefix="submission-", dir=self._home))
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

    def stop(self, number: int) -> int | None:
        """Kill a worker and everything it started; its exit code once it is gone, None if that can't be told."""
        with self._lock:
            if number not in self._exited and self._control is not None:
                with contextlib.suppress(OSError):
                    protocol.send(self._control, {"kind": "stop", "worker": number})
            return self.exit_code(number, STOP_TIMEOUT_S)

    def exit_code(self, number: int, timeout_s: float) -> int | None:
        """The exit code of a worker that ends by itself within the time."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
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


class Worker:
    """One forked worker: its channel, its arena, its folder and what it printed."""

    def __init__(self, zygote: Zygote, number: int, channel: socket.socket, arena: Arena, output_fd: int,
                 folder: Path) -> None:  # fmt: skip
        self.arena = arena
        self.folder = folder
        self.output = b""
        self.output_bytes = 0
        self._zygote = zygote
        self._number = number
        self._channel = channel
        self._output_fd = output_fd
        self._decoder = protocol.Decoder()
        self._requests = 0
        self._selector = selectors.DefaultSelector()
        channel.setblocking(False)
        os.set_blocking(output_fd, False)
        self._selector.register(channel, selectors.EVENT_READ)
        self._selector.register(output_fd, selectors.EVENT_READ)

    def request(self, message: protocol.Message, timeout_s: float) -> protocol.Message | WorkerGone:
        """Send a message and wait for its answer."""
        self.post(message)
        return self.wait(timeout_s)

    def post(self, message: protocol.Message) -> None:
        """Send a message without waiting, so that the judge can work meanwhile. A dead worker shows in `wait`."""
        self._requests += 1
        self._channel.settimeout(STOP_TIMEOUT_S)
        with contextlib.suppress(OSError):
            protocol.send(self._channel, {**message, "id": self._requests})
        self._channel.setblocking(False)

    def wait(self, timeout_s: float) -> protocol.Message | WorkerGone:
        """The answer to the last message. A worker that gives none in time, or a malformed one, is gone."""
        deadline = time.monotonic() + timeout_s
        try:
            while (left_s := deadline - time.monotonic()) > 0:
                reply = self._read_available(left_s)
                if reply is None:
                    continue
                if reply.get("id") != self._requests:
                    raise protocol.ProtocolError("the reply is for another request")
                return reply
        except protocol.ProtocolError as error:
            self._zygote.stop(self._number)
            return WorkerGone(timed_out=False, code=None, malformed=str(error))
        except (OSError, EOFError):
            # The channel closed: the process is gone or closed it. It gets a moment to end by itself, for its code.
            code = self._zygote.exit_code(self._number, 1.0)
            if code is None:
                self._zygote.stop(self._number)
            self._drain()
            return WorkerGone(timed_out=False, code=code)
        self._zygote.stop(self._number)
        self._drain()
        return WorkerGone(timed_out=True, code=-signal.SIGKILL)

    def close(self) -> None:
        """Kill the worker and all it started, and free what belongs to it."""
        self._channel.close()
        self._zygote.stop(self._number)
        self._drain()
        self._selector.close()
        os.close(self._output_fd)
        self.arena.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read_available(self, timeout_s: float) -> protocol.Message | None:
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._channel:
                data = self._channel.recv(1 << 16)
                if not data:
                    raise EOFError
                self._decoder.feed(data)
            elif not self._drain():
                self._selector.unregister(self._output_fd)
        return self._decoder.next_message()

    def _drain(self) -> bool:
        """Take what the worker has printed, keep the first `output_kib` of it. False at its end."""
        keep = self._zygote.limits.output_kib << 10
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):
                data = os.read(self._output_fd, 1 << 16)
                if not data:
                    return False
                self.output_bytes += len(data)
                self.output = (self.output + data)[:keep]
        return True


def _copy_worker_code(target: Path) -> None:
    """A folder with only what a worker imports of the grader: the protocol and `grader/worker`."""
    (target / "grader").mkdir(parents=True)
    shutil.copytree(_PACKAGE / "worker", target / "grader" / "worker", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "protocol.py"):
        shutil.copy(_PACKAGE / name, target / "grader" / name)
