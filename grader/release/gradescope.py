"""Gradescope's autograder archive: the grader with the staff's rubric, what sets it up, what runs it.

Layout: https://gradescope-autograders.readthedocs.io/en/latest/specs/. `grader/autograder.py` does the work there.
"""

from __future__ import annotations

from ..protected import CI_FILES
from .tree import Files, fill

COURSE = "course"  # the folder of the grader in the archive


def archive_files(handout: Files, rubric: bytes, seed: int | None) -> Files:
    """The files of the archive, from those of a handout and the staff's rubric."""
    left_out = ("tests/", "ci/", "docs/", *CI_FILES)
    files = {f"{COURSE}/{name}": data for name, data in handout.items() if not name.startswith(left_out)}
    files[f"{COURSE}/rubric.yaml"] = rubric
    if seed is not None:
        files["seed"] = f"{seed}\n".encode()
    return {**files, "setup.sh": fill("setup.sh"), "run_autograder": fill("run_autograder")}
