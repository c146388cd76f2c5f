"""What one call of a submission's entry point leaves behind: launches, bytes, faults (untrusted worker side).

The judge reads the record as JSON; nothing in it is trusted to be true, only to be small and plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

KEPT_FAULTS = 16
KEPT_LAUNCHES = 4096


@dataclass(frozen=True)
class Options:
    """How the next call is run; no field changes what is allowed, and `batch` not even values, only the speed.

    Launches that are `silenced` do nothing. `inputs` are the addresses between which the call's inputs lie.
    """

    config_index: int = 0
    tf32: bool = True
    accumulate_16bit: bool = True
    memory_check: bool = True
    batch: bool = True
    silenced: bool = False
    inputs: tuple[int, int] | None = None


@dataclass
class Launch:
    """One kernel launch: its name, its grid padded to three numbers, the configuration chosen and of how many."""

    kernel: str
    grid: list[int]
    config: str | None
    num_configs: int


@dataclass
class Fault:
    """Accesses outside a tensor by one source line; only the first program that did it is described.

    `bytes_past` is positive past the end, negative before the start, zero between the elements of a padded view.
    """

    kind: str
    file: str
    line: int
    argument: str | None
    dtype: str
    shape: list[int]
    lanes: int
    active_lanes: int
    bytes_past: int
    program: list[int]
    message: str


@dataclass
class Record:
    """What happened during one call; plain data for `dataclasses.asdict` and JSON."""

    launches: list[Launch] = field(default_factory=list)
    launch_count: int = 0
    bytes_loaded: int = 0
    bytes_stored: int = 0
    unique_bytes_loaded: int = 0
    unique_bytes_stored: int = 0
    faults: list[Fault] = field(default_factory=list)
    fault_count: int = 0
    warnings: list[str] = field(default_factory=list)
    unsupported: str | None = None
    inputs_loaded: bool | None = None

    def warn(self, message: str) -> None:
        """Keep a warning once."""
        if message not in self.warnings:
            self.warnings.append(message)


class Unsupported(Exception):  # noqa: N818 - part of the agreed interface
    """A Triton feature that can't be run on a CPU; never the student's fault."""


class Session:
    """The options and record of the call in progress, and what the running launch needs to describe itself."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.record = Record()
        self.program: tuple[int, int, int] | None = (0, 0, 0)  # None while several run together
        self.config: str | None = None
        self.num_configs = 1
        self.memory: Any = None  # set by `launch`: the memory module builds on this one
        self.body: Any = None  # the running launch's kernel with its arguments, for one more program
        self.recording = False


class _Current:
    """Holder of the session in progress; a launch outside `record` (a kernel run at import) gets one of its own."""

    def __init__(self) -> None:
        self.session = Session(Options())


current = _Current()


@contextmanager
def switch(session: Session) -> Iterator[Session]:
    """Make `session` the current one for the duration."""
    before = current.session
    current.session = session
    try:
        yield session
    finally:
        current.session = before


def unsupported(feature: str) -> NoReturn:
    """Note that `feature` can't be run here, and leave the student's call.

    Raises:
        Unsupported: always; the note stays even where the student's code catches it.

    """
    record = current.session.record
    if record.unsupported is None:
        record.unsupported = feature
    raise Unsupported(f"{feature} can't be run on a CPU, so this is not measured here")
