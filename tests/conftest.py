"""Settings for the grader's own tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from grader.machine import Machine

# The same examples in every run unless HYPOTHESIS_SEED_FREE is set, as for running what is random with many seeds.
settings.register_profile("fixed", deadline=None, database=None, derandomize=True)
settings.register_profile("free", deadline=None, database=None)
settings.load_profile("free" if os.environ.get("HYPOTHESIS_SEED_FREE") else "fixed")


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors here. Not in pyproject.toml: a student's run must survive a library's new warning."""
    config.addinivalue_line("filterwarnings", "error")


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """Workers on the CPU, for tests that do no harm to them: those that do start their own."""
    from grader.machine import Machine
    from grader.rubric import Limits

    started = Machine(Limits(memory_mib=4096), "cpu")
    yield started
    started.close()
