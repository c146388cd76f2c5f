"""Settings for the grader's own tests."""

from __future__ import annotations

import os

from hypothesis import settings

# The same examples in every run unless HYPOTHESIS_SEED_FREE is set, as for running what is random with many seeds.
settings.register_profile("fixed", deadline=None, database=None, derandomize=True)
settings.register_profile("free", deadline=None, database=None)
settings.load_profile("free" if os.environ.get("HYPOTHESIS_SEED_FREE") else "fixed")
