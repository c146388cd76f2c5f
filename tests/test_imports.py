"""Imports go one way: reference ← grader ← conftest; the worker imports only what it may."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORKER_MAY_IMPORT = {*sys.stdlib_module_names, "torch", "triton", "numpy", "nvtx"}


def imported_modules(path: Path, root: Path = ROOT) -> set[str]:
    """Absolute dotted names of everything that a file imports, also inside functions."""
    package = path.relative_to(root).with_suffix("").parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{stem}.{alias.name}" for alias in node.names}
    return found


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", python_files("reference"), ids=name)
def test_reference_imports_nothing_of_the_grader(path):
    assert not {module for module in imported_modules(path) if module.split(".")[0] == "grader"}


@pytest.mark.parametrize("path", python_files("grader/worker"), ids=name)
def test_the_worker_imports_only_libraries_and_the_protocol(path):
    for module in imported_modules(path):
        top = module.split(".")[0]
        if top == "grader":
            assert module.startswith(("grader.worker", "grader.protocol", "grader.device_memory", "grader.planted")), (
                module
            )
        else:
            assert top in WORKER_MAY_IMPORT, module


@pytest.mark.parametrize("path", [p for p in python_files("grader") if "worker" not in p.parts], ids=name)
def test_the_judge_never_imports_the_worker(path):
    assert not {module for module in imported_modules(path) if module.startswith("grader.worker")}


@pytest.mark.parametrize("path", [p for p in python_files("grader") if p.name != "conftest.py"], ids=name)
def test_modules_do_not_import_the_pytest_layer(path):
    assert not {module for module in imported_modules(path) if module.startswith("grader.conftest")}


def test_importing_the_grader_imports_nothing_else():
    assert not imported_modules(ROOT / "grader/__init__.py")


@pytest.mark.parametrize("path", [*python_files("grader"), *python_files("reference")], ids=name)
def test_modules_stay_short(path):
    text = path.read_text()
    if path.parent.name == "solutions":  # what students are given beside is the starter's, not the solution's
        text = "".join(region.partition("# solution: end")[0] for region in text.split("# solution: begin")[1:])
    assert len(text.splitlines()) <= 400


def test_the_finder_sees_relative_and_nested_imports(tmp_path):
    (tmp_path / "grader/worker").mkdir(parents=True)
    file = tmp_path / "grader/worker/bad.py"
    file.write_text("def f():\n    from ..rubric import Rubric\n    import pydantic\n")
    assert imported_modules(file, tmp_path) == {"grader.rubric.Rubric", "pydantic"}
