"""The staff solutions run together, and give what the loop gives: `interp_modes` compares every launch."""

from __future__ import annotations

import interp_modes
import pytest
from interp_calls import BLOCK_POINTERS, NO_KERNELS, ROOT, calls_on_listed_cases, load_module, run_all
from interp_support import DTYPES

SOLUTIONS = sorted(path for path in (ROOT / "reference" / "solutions").glob("*.py") if path.stem not in NO_KERNELS)


@BLOCK_POINTERS
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_solutions(path, dtype):
    since = len(interp_modes.log)
    for config_index in (0, 3):
        run_all(path, path.stem, DTYPES[dtype], config_index)
    seen = [outcome for kind, outcome in interp_modes.log[since:] if kind == "launch" and outcome.programs > 1]
    assert seen
    for outcome in seen:
        assert outcome.together or outcome.reason in ("atomics", "too many different branches"), outcome


def test_an_exercise_without_calls_of_its_own_is_called_on_its_listed_cases():
    entry = load_module(ROOT / "reference/solutions/softmax.py").softmax
    since = len(interp_modes.log)
    calls = calls_on_listed_cases("softmax", entry, DTYPES["float16"])
    for call in calls:
        call()
    assert len(interp_modes.log) - since >= len(calls) > 5
