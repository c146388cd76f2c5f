"""Untrusted side: a process that has imported torch and Triton and forks the workers.

Forking a warm process takes milliseconds where starting one takes seconds. The zygote never runs submission code; it
only forks, reaps and kills. It adopts what workers leave behind (PR_SET_CHILD_SUBREAPER) and kills it when its worker
is gone. It dies with the judge.

Usage: python zygote.py CONTROL_FD SETTINGS, these as `confine` has them. Messages on the control socket:
    → {"kind": "fork", "worker": N, "limits": {...}, "folder": F, "uid": U} with three descriptors: channel, arena,
      output
    → {"kind": "stop", "worker": N} · {"kind": "pause", "worker": N} · {"kind": "resume", "worker": N}
    ← {"kind": "ready", ...versions} · {"kind": "forked", "worker": N} · {"kind": "exited", "worker": N, "code": C}
C is the exit code, or minus the number of the signal that killed it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
from pathlib import Path

from grader import protocol
from grader.worker import call, confine, linux

FORK_FDS = 3  # channel, arena, output


class Zygote:
    """The fork server's loop. One instance a process."""

    def __init__(self, control: socket.socket, settings: confine.Settings) -> None:
        self._control = control
        self._settings = settings
        self._decoder = protocol.Decoder()
        self._fds: list[int] = []
        self._pids: dict[int, int] = {}
        # Profilers lose a process that was forked without exec.
        self._spawn = os.environ.get("GRADER_SPAWN") == "1"
        self._wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def run(self) -> None:
        """Serve until the judge closes the control socket."""
        selector = selectors.DefaultSelector()
        selector.register(self._control, selectors.EVENT_READ)
        selector.register(self._wakeup_read, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if self._wakeup_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup_read, 4096)
            self._reap()
            if self._control in ready and not self._receive():
                break
        for pid in self._pids.values():
            _signal_tree(pid, signal.SIGKILL)
        self._kill_strays()

    def _receive(self) -> bool:
        """Handle every message that has come; several may come at a time. False when the judge is gone."""
        data, fds, _, _ = socket.recv_fds(self._control, 1 << 16, FORK_FDS)
        self._fds += fds
        self._decoder.feed(data)
        while (message := self._decoder.next_message()) is not None:
            self._handle(message)
        return bool(data)

    def _handle(self, message: protocol.Message) -> None:
        if message["kind"] == "fork":
            fds, self._fds = self._fds[:FORK_FDS], self._fds[FORK_FDS:]
            self._fork(message, fds)
        elif message["kind"] == "stop" and message["worker"] in self._pids:
            _signal_tree(self._pids[message["worker"]], signal.SIGKILL)
        elif message["kind"] in ("pause", "resume"):
            pausing = message["kind"] == "pause"
            if pausing:  # also what a worker has sent out of its own tree
                self._kill_strays()
            if message["worker"] in self._pids:
                _signal_tree(self._pids[message["worker"]], signal.SIGSTOP if pausing else signal.SIGCONT)
            done = "paused" if pausing else "resumed"
            protocol.send(self._control, {"kind": done, "worker": message["worker"]})

    def _fork(self, message: protocol.Message, fds: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
                _become_worker(fds)
                confine.limit(message["limits"], self._settings)
                confine.become(self._settings, message["limits"], message["folder"], message["uid"])
                if self._spawn:
                    _start_afresh(message["arena_size"])
                call.serve(socket.socket(fileno=3), 4, message["arena_size"])
                code = 0
            finally:
                # Never unwind into the zygote's own stack, whatever the submission raised.
                os._exit(code)
        for fd in fds:
            os.close(fd)
        self._pids[message["worker"]] = pid
        protocol.send(self._control, {"kind": "forked", "worker": message["worker"]})

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for worker, worker_pid in list(self._pids.items()):
                if worker_pid == pid:
                    del self._pids[worker]
                    self._kill_strays()
                    code = os.waitstatus_to_exitcode(status)
                    protocol.send(self._control, {"kind": "exited", "worker": worker, "code": code})

    def _kill_strays(self) -> None:
        """Kill what finished workers left running: every descendant of the zygote outside a live worker's tree."""
        for _ in range(100):  # a fork bomb may outrun one pass
            children = _children_by_parent()
            live = {pid for root in self._pids.values() for pid in _tree(root, children)}
            strays = [pid for pid in _tree(os.getpid(), children) if pid not in live and pid != os.getpid()]
            if not strays:
                return
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                for pid in strays:
                    os.waitpid(pid, 0 if pid in children.get(os.getpid(), ()) else os.WNOHANG)


def _become_worker(fds: list[int]) -> None:
    """Give the fork its own session, descriptors 3 (channel), 4 (arena), 1 and 2 (output), and nothing else."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    channel, arena, output = (fd_above(fd, 10) for fd in fds)
    devnull = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((devnull, 0), (output, 1), (output, 2), (channel, 3), (arena, 4)):
        os.dup2(source, target, inheritable=True)
    os.closerange(5, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)  # noqa: SIM115


def _start_afresh(arena_size: int) -> None:
    """Replace this fork by a new interpreter that imports everything again and then serves."""
    code = (
        f"import socket, sys; sys.path[:] = {sys.path!r}; from grader.worker import call; call.prepare(); "
        f"call.serve(socket.socket(fileno=3), 4, {arena_size})"
    )
    os.execv(sys.executable, [sys.executable, "-I", "-B", "-c", code])  # noqa: S606 - our own interpreter and code


def fd_above(fd: int, least: int) -> int:
    """A duplicate of `fd` at `least` or higher, so that moving descriptors to 0..4 never overwrites one of them."""
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD, least)


def _children_by_parent() -> dict[int, list[int]]:
    result: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended while we looked
                continue
            result.setdefault(int(fields[1]), []).append(int(entry.name))
    return result


def _tree(root: int, children: dict[int, list[int]]) -> list[int]:
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def _signal_tree(root: int, number: signal.Signals) -> None:
    for pid in _tree(root, _children_by_parent()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def main() -> None:
    """Import what workers need, say so, and serve."""
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    settings = json.loads(sys.argv[2])
    confine.enter(settings)
    # An editable install would let submissions import the course's `reference`.
    sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in getattr(finder, "__module__", "")]
    control = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(control.fileno(), False)
    zygote = Zygote(control, settings)
    protocol.send(control, {"kind": "ready", **call.prepare()})
    zygote.run()
    os._exit(0)  # tearing torch down would keep the judge waiting for a second


if __name__ == "__main__":
    main()
