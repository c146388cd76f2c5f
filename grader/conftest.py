"""Connects pytest to the grading: options in, items out, verdicts to reports. Trusted side."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.control import seed_from
from grader.errors import GraderError, SelectionError
from grader.grading import Grading
from grader.items import Item
from grader.judging import Selection, default_root
from grader.machine import Machine
from grader.report import terminal
from grader.report.attachments import folder_of, save
from grader.rubric import load_rubric
from grader.submission import Submission
from grader.whole import check_folder_of, is_special

_GRADING = pytest.StashKey[Grading]()
_MACHINE = pytest.StashKey[Machine]()
_RESULT = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Check all input before anything runs: bad input is one line on stderr and exit status 2."""
    try:
        grading = _open(config)
    except GraderError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    config.stash[_GRADING] = grading
    if config.option.reportchars == "fE":  # pytest's default; the scoreboard says more
        config.option.reportchars = ""
    return None


def _open(config: pytest.Config) -> Grading:
    root = default_root()
    submission = config.option.submission or root / "student"
    rubric = config.option.rubric or root / "rubric.yaml"
    if config.inipath is not None and config.inipath.resolve().is_relative_to(submission.resolve()):
        raise SelectionError(f"pytest took its configuration from {config.inipath}, inside the submission; "
                             "write `pytest grader --submission DIR`, with `grader` first")  # fmt: skip
    command = ["pytest", "grader"]
    for option, value in (("--submission", config.option.submission), ("--rubric", config.option.rubric)):
        if value is not None:
            command += [option, str(value)]
    result: Path = config.option.result or Path("result.json")
    check_folder_of(result, "--result")
    config.stash[_RESULT] = result.absolute()
    loaded = load_rubric(rubric)
    seed = config.option.seed if config.option.control is None else seed_from(config.option.control)
    config.stash[_MACHINE] = Machine(
        loaded.rubric.limits,
        config.option.device,
        spawn=config.option.spawn_workers,
        sandbox=config.option.sandbox,
        peer_times=config.option.peer_times,
    )
    return Grading(
        loaded,
        Submission(submission),
        config.stash[_MACHINE],
        Selection(config.option.exercise, seed, config.option.reproduce, command, folder_of(result)),
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Launch the worker side early, and leave a result from the first moment on."""
    if not session.config.option.collectonly:
        session.config.stash[_MACHINE].start()
        _write(session.config)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to judge what is selected."""
    if not session.config.option.collectonly:
        session.config.stash[_GRADING].start([item.callspec.params["item"] for item in session.items])  # type: ignore[attr-defined]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a graded item, in the module that has the item's check."""
    if "item" in metafunc.fixturenames:
        checks = metafunc.module.CHECKS
        items = [item for item in metafunc.config.stash[_GRADING].items if item.check in checks]
        metafunc.parametrize("item", items, ids=[str(item) for item in items])


@pytest.fixture
def grading(request: pytest.FixtureRequest) -> Iterator[Grading]:
    """The grading of this run. The result is written again after each item, so that a killed run leaves one."""
    yield request.config.stash[_GRADING]
    _write(request.config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the result, also when the run was interrupted, and end the worker side."""
    if not session.config.option.collectonly:
        _write(session.config)
    session.config.stash[_MACHINE].close()
    session.config.stash[_GRADING].close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the scoreboard."""
    if not config.option.collectonly:
        terminalreporter.write(terminal.scoreboard(config.stash[_GRADING].result(), color=terminalreporter.hasmarkup))
        terminalreporter.write_line(f"result: {config.stash[_RESULT]}")


def _write(config: pytest.Config) -> None:
    path = config.stash[_RESULT]
    try:
        if not is_special(path):
            save(folder_of(path), config.stash[_GRADING].attachments())
        config.stash[_GRADING].result().write(path)
    except OSError as error:
        sys.stderr.write(f"error: {path}: the result could not be written: {error.strerror or error}\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Values first: the others are judged meanwhile. A module without items leaves a placeholder, which is dropped."""
    items[:] = [item for item in items if isinstance(item.callspec.params["item"], Item)]  # type: ignore[attr-defined]
    order = ("test_correctness", "test_fused", "test_compiles", "test_harness", "test_speed")
    items.sort(key=lambda item: order.index(item.path.stem) if item.path.stem in order else len(order))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each test the points of its item, for `--junitxml`."""
    graded = getattr(item, "callspec", None)
    if graded is not None and isinstance(graded.params.get("item"), Item):
        item.user_properties.append(("max_points", f"{graded.params['item'].max_points:g}"))
