"""The command `grader`: what staff and students need besides `pytest grader`."""

from __future__ import annotations

import contextlib
import importlib.util
import platform
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from . import probe as probing
from .cli_inspect import inspect
from .cli_profile import profile
from .errors import GraderError, InfrastructureError
from .judging import default_root
from .protected import verify
from .report.command import report
from .rubric import Limits, load_rubric
from .sandbox import LEVELS, Choice, Sandbox, attempt, choose, group_problem, machine_facts
from .versions import installed_version
from .zygote import Zygote

_PACKAGES = ("kernel-grader", "torch", "triton", "numpy", "hypothesis", "pytest", "pytest-benchmark", "nvtx")
_FOR_STAFF = ("sqlalchemy", "copydetect", "parsl")  # of the extras `staff` and `cluster`

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Grades Triton kernels; `pytest grader` does the rest."
)


# Staff's commands are not in a handout.
if (Path(__file__).parent / "batch").is_dir():
    from .batch.commands import batch, override

    app.command()(batch)
    app.command()(override)
if (Path(__file__).parent / "adequacy").is_dir():
    from .adequacy.command import adequacy

    app.command()(adequacy)
if (Path(__file__).parent / "release").is_dir():
    from .release.command import release

    app.command()(release)

app.command()(report)
app.command()(verify)


@app.command()
def doctor(
    rubric: Annotated[Path | None, typer.Option(help="the policy to look at")] = None,
    probe: Annotated[bool, typer.Option("--probe", help="attack the sandbox, and say what it refused")] = False,
    sandbox: Annotated[Choice, typer.Option(help="the level to probe; auto probes every level there is")] = "auto",
) -> None:
    """Say which devices, versions, checks and sandbox there are here, and what is missing for the rest."""
    console = Console(highlight=False)
    console.print(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
    if platform.system() != "Linux":
        console.print("Triton has no wheels for this system: use Linux, WSL 2 or a container.")
        raise typer.Exit(1)
    for name in (*_PACKAGES, *_FOR_STAFF):
        console.print(f"{name} {installed_version(name, 'is not installed')}")
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
    _sandbox(console)
    if probe:
        _probe(console, sandbox, loaded.rubric.limits)


def _sandbox(console: Console) -> None:
    """Print the highest level, what goes into it, and what the next one takes."""
    import torch

    gpu, facts = torch.cuda.is_available(), machine_facts()
    level = choose("auto", gpu=gpu).level
    console.print(f"sandbox: up to {level}: pytest grader --sandbox {level}")
    if level != "L3":
        following = LEVELS[LEVELS.index(level) + 1]
        # Without root there is no L1, and there need not be for L2.
        following = "L2" if following == "L1" and not facts.root else following
        console.print(f"  for {following}: {attempt(following, gpu=gpu).missing}")
    console.print(f"  namespaces: {f'no: {facts.namespaces}' if facts.namespaces else 'yes'}")
    problem = group_problem()
    console.print(f"  control group: {f'no: {problem}' if problem else 'yes'}")


def _probe(console: Console, choice: Choice, limits: Limits) -> None:
    """Print what a submission that attacks the sandbox was refused. Ends with 1 where a promise is broken."""
    try:
        trials = [attempt(level) for level in LEVELS] if choice == "auto" else []
        sandboxes = [trial.sandbox for trial in trials if not trial.missing] or [choose(choice)]
        found = {sandbox.level: _attempts(sandbox, limits) for sandbox in sandboxes}
    except (GraderError, InfrastructureError) as error:
        console.print(f"error: {error}")
        raise typer.Exit(2) from None
    table = Table("a submission tries to", *found)
    for name, title in probing.titles().items():
        table.add_row(title, *("refused" if found[level][name].refused else "allowed" for level in found))
    console.print(table)
    broken = [each for of_level in found.values() for each in of_level.values() if each.promised and not each.refused]
    for each in broken:
        console.print(f"broken promise: {each.level} allowed to {probing.titles()[each.name]}: {each.detail}")
    if broken:
        raise typer.Exit(1)


def _attempts(sandbox: Sandbox, limits: Limits) -> dict[str, probing.Attempt]:
    with contextlib.closing(Zygote(limits, sandbox=sandbox)) as zygote:
        return {each.name: each for each in probing.run(zygote)}


app.command()(inspect)
app.command()(profile)


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


if __name__ == "__main__":
    sys.exit(app())
