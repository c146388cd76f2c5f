"""Who is timed or profiled on a GPU beside the submission, and the name of each one's NVTX range. Pure."""

from __future__ import annotations

import textwrap
from pathlib import Path

from reference.exercise import Case

from .submission import Sources

NVTX_DOMAIN = "grader"
STUDENT = "student"


def range_name(case: Case, player: str) -> str:
    """The NVTX range around a player's calls on a case. No slash: ncu takes it for nesting."""
    size = "_".join("x".join(map(str, spec.shape)) for spec in case.tensors)
    return f"{case.exercise}.{player}.{size}.{case.dtype}"


def baseline_sources(exercise_id: str, name: str) -> Sources:
    """A worker's sources that give a baseline as the function `baseline`, so that it runs as a submission does."""
    root = str(Path(__file__).parent.parent)
    code = textwrap.dedent(f"""\
        import sys
        sys.path.append({root!r})
        import torch
        import reference
        baselines = reference.load({exercise_id!r}).baselines
        baseline = torch.compile(baselines["eager"]) if {name!r} == "compile" else baselines[{name!r}]
        """)
    return Sources("baseline.py", {"baseline.py": code.encode()})
