"""Every kernel of the corpus gives together what the loop gives: `interp_modes` compares every launch."""

from __future__ import annotations

import interp_modes
import pytest
import torch
from interp_calls import BLOCK_POINTERS, NO_KERNELS, ROOT, run_all

SUBMISSIONS = sorted(
    path for path in (ROOT / "tests" / "submissions").glob("*/*.py") if path.parent.name not in NO_KERNELS
)


@BLOCK_POINTERS
@pytest.mark.parametrize("path", SUBMISSIONS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_submissions(path):
    run_all(path, path.parent.name, torch.float32)


def test_share_that_runs_together(capsys):
    # Atomics are never batched, by rule; how many the corpus has says nothing of what could have been.
    launches = [o for kind, o in interp_modes.log if kind == "launch" and o.programs > 1 and o.reason != "atomics"]
    share = sum(o.together for o in launches) / sum(o.programs for o in launches)
    with capsys.disabled():
        print("", interp_modes.table(), f"{share:.1%} of {sum(o.programs for o in launches)} programs", sep="\n")
    assert share > 0.85
