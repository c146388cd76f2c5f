"""The command `grader`: what staff and students need besides `pytest grader`."""

from __future__ import annotations

import importlib.util
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .batch.commands import batch, override
from .errors import GraderError
from .grading import default_root
from .rubric import load_rubric

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Grades Triton kernels; `pytest grader` does the rest."
)


app.command()(batch)
app.command()(override)


@app.command()
def doctor(rubric: Annotated[Path | None, typer.Option(help="the policy to look at")] = None) -> None:
    """Say which devices, versions and checks there are here, and what is missing for the rest."""
    console = Console(highlight=False)
    console.print(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
    if platform.system() != "Linux":
        console.print("Triton has no wheels for this system: use Linux, WSL 2 or a container.")
        raise typer.Exit(1)
    for name in ("kernel-grader", "torch", "triton", "numpy", "hypothesis", "pytest", "pytest-benchmark", "nvtx"):
        console.print(f"{name} {_version(name)}")
    problems = _gpu(console)
    try:
        loaded = load_rubric(rubric or default_root() / "rubric.yaml")
    except GraderError as error:
        console.print(f"error: {error}")
        raise typer.Exit(2) from None
    checks = sorted({check for name in loaded.rubric.exercises for check in loaded.rubric.weights_of(name)})
    unavailable = [] if not problems else [check for check in checks if check == "speed"]
    console.print(f"rubric: {loaded.path}, {len(loaded.rubric.exercises)} exercises")
    console.print(f"gradable here: {', '.join(check for check in checks if check not in unavailable)}")
    for check in unavailable:
        console.print(f"not gradable here: {check}: {problems}")


def _gpu(console: Console) -> str:
    """Print what is known of the GPU; gives what keeps `speed` from being graded, "" where nothing does."""
    import torch

    if not torch.cuda.is_available():
        built = "for CUDA" if torch.version.cuda else "for the CPU only"
        console.print(f"no GPU: PyTorch is built {built}; the checks of values run in Triton's interpreter")
        return "it needs an NVIDIA GPU and PyTorch built for CUDA"
    console.print(f"GPU: {torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}")
    for module, package in (("cuda.bindings", "cuda-bindings"), ("pynvml", "nvidia-ml-py")):
        if not _importable(module):
            console.print(f"{package} is missing: pip install 'kernel-grader[gpu]'")
    return "" if _importable("cuda.bindings") else "it needs cuda-bindings: pip install 'kernel-grader[gpu]'"


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"


if __name__ == "__main__":
    sys.exit(app())
