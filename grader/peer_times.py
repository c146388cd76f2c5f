"""Trusted side: what PyTorch's baselines took on this GPU, kept from one submission of a batch to the next.

Compiling them takes a while, and they are the same for all. No points depend on it.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from reference.exercise import Case

from .whole import replacing

# Per baseline the median µs of a call, or why there is none.
Times = dict[str, float | str]
_KNOWN = TypeAdapter(dict[str, dict[str, Times]])  # by GPU and case


class PeerTimes:
    """A file that the graders of a batch share: the first to time a case on a GPU writes it, the others read it."""

    def __init__(self, path: Path, gpu: str) -> None:
        """`gpu` names what the times depend on besides the case: the device."""
        self._path = path
        self._gpu = gpu

    def of(self, case: Case) -> Times | None:
        """What the baselines of a case took on this GPU, None where nobody has timed them."""
        return self._read().get(self._gpu, {}).get(str(case))

    def missing(self, cases: Sequence[Case]) -> list[Case]:
        """The cases that nobody has timed on this GPU."""
        known = self._read().get(self._gpu, {})
        return [case for case in cases if str(case) not in known]

    def add(self, case: Case, times: Times) -> None:
        """Keep what one grader found. A failure to write costs the others time only."""
        try:
            with self._path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = self._read()
                known.setdefault(self._gpu, {})[str(case)] = times
                with replacing(self._path) as file:
                    file.write_text(json.dumps(known))
        except OSError:
            return

    def _read(self) -> dict[str, dict[str, Times]]:
        try:
            return _KNOWN.validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return {}
