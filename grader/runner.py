"""Trusted side: one worker: its channel with timeouts, its arena, its folder and what it printed.

Whatever a worker does ends here as a reply or as a `WorkerGone`. Nothing that it sends is believed beyond its form.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import signal
import socket
import time
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import protocol
from .arena import Arena
from .home import SCRATCH, remove_tree

if TYPE_CHECKING:
    from .zygote import Zygote

SEND_TIMEOUT_S = 10.0
MOST_FILES_NAMED = 8


@dataclass(frozen=True)
class WorkerGone:
    """A worker ended without answering. `code` is its exit code, or minus the signal that killed it."""

    timed_out: bool
    code: int | None
    malformed: str = ""


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

    def post(self, message: protocol.Message, fds: tuple[int, ...] = ()) -> None:
        """Send a message without waiting, so that the judge can work meanwhile. A dead worker shows in `wait`."""
        self._requests += 1
        self._channel.settimeout(SEND_TIMEOUT_S)
        with contextlib.suppress(OSError):
            protocol.send(self._channel, {**message, "id": self._requests}, fds)
        self._channel.setblocking(False)

    def wait(self, timeout_s: float, *, spin: bool = False) -> protocol.Message | WorkerGone:
        """The answer to the last message. A worker that gives none in time, or a malformed one, is gone.

        With `spin` it is noticed without the delay of waking up, at the price of a core.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while (left_s := deadline - time.monotonic()) > 0:
                reply = self._read_available(0.0 if spin else left_s)
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

    def files_besides(self, staged: Container[str]) -> list[str]:
        """Names of some of the files that were put into the worker's folder after the staged ones."""
        try:
            with os.scandir(self.folder) as entries:
                found = (entry.name for entry in entries if entry.name not in staged and entry.name != SCRATCH)
                return sorted(ascii(name)[1:-1] for name in itertools.islice(found, MOST_FILES_NAMED))
        except OSError:  # it is the submission's to delete
            return []

    def pause(self, *, paused: bool) -> None:
        """Stop the worker's processes, or let them go on."""
        self._zygote.pause(self._number, paused=paused)

    def close(self) -> None:
        """Kill the worker and all it started, and free what belongs to it."""
        self._channel.close()
        self._zygote.stop(self._number)
        self._drain()
        self._selector.close()
        os.close(self._output_fd)
        self.arena.close()
        remove_tree(self.folder)

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
