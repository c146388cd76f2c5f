"""The options of `pytest grader`, registered as a pytest entry point.

They can't live in conftest.py. Before pytest has read that file, it imports the conftest.py of every folder on its
command line, and takes the value of an option that it does not know yet for such a folder: `--submission DIR` would
import DIR/conftest.py, the submission's code, into the judge.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import launch


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options."""
    group = parser.getgroup("grader", "grading Triton kernels (pytest grader)")
    group.addoption("--submission", type=Path, metavar="DIR", help="the folder to grade (default: student/)")
    group.addoption("--exercise", action="append", default=[], metavar="ID", help="grade only this; may be repeated")
    group.addoption("--seed", type=int, metavar="N", help="draw other cases than the rubric's seed does")
    group.addoption("--rubric", type=Path, metavar="FILE", help="the policy (default: rubric.yaml)")
    group.addoption("--result", type=Path, metavar="FILE", help="where the result goes (default: result.json)")
    group.addoption("--reproduce", metavar="CASE", help="judge one case again, as a failure's message names it")
    group.addoption(
        "--spawn-workers",
        action="store_true",
        help="start GPU workers afresh instead of forking them: slower, but ncu can follow",
    )
    group.addoption(
        "--sandbox",
        choices=("auto", "L0", "L1", "L2", "L3"),
        default="L0",
        help="what submissions run in: nothing (L0, the default), or a level that grader doctor names",
    )
    group.addoption("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where kernels run")
    group.addoption("--peer-times", type=Path, metavar="FILE",
                    help="for grader batch: where its graders share what PyTorch's baselines took")  # fmt: skip
    group.addoption("--control", type=int, metavar="FD", help="for grader batch: a pipe that the seed comes through")


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Launch a worker process before grader/conftest.py is imported, as both import torch for seconds."""
    options = early_config.known_args_namespace
    here = Path(__file__).parent
    if "grader" in args and not Path("grader").exists():
        # Installed from a wheel: the word is the package, wherever it is.
        args[args.index("grader")] = options.file_or_dir[options.file_or_dir.index("grader")] = str(here)
    grades = any(Path(arg).resolve().is_relative_to(here) for arg in args if not arg.startswith("-"))
    if grades and not (options.collectonly or options.help or options.version):
        launch.start_early(options.sandbox)
