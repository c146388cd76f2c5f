"""Where no Slurm can be started, everything here is skipped, in this one place."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .single import SingleSlurm, missing


@pytest.fixture(scope="session")
def slurm() -> Iterator[SingleSlurm]:
    """A Slurm with four emulated GPUs."""
    if not os.environ.get("GRADER_TEST_SLURM"):
        pytest.skip("takes minutes: make test-slurm")
    pytest.importorskip("parsl", reason="needs the extra `cluster`")
    if why := missing():
        pytest.skip(why)
    with SingleSlurm() as single:
        yield single
