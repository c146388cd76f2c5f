"""Settings for the grader's own tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# The same examples in every run unless HYPOTHESIS_SEED_FREE is set, as for running what is random with many seeds.
settings.register_profile("fixed", deadline=None, database=None, derandomize=True)
settings.register_profile("free", deadline=None, database=None)
settings.load_profile("free" if os.environ.get("HYPOTHESIS_SEED_FREE") else "fixed")


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors here. Not in pyproject.toml: a student's run must survive a library's new warning."""
    config.addinivalue_line("filterwarnings", "error")
