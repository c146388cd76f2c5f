"""The file of `--cluster`: a short YAML for Slurm, or a Python file with a Parsl configuration. Trusted side.

Reading a YAML file needs no Parsl; errors name file, line and remedy.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import ClusterError
from ..yaml_file import line_of, read_mapping

# What goes into a line of a job's script: no blank, quote or line end, so that it stays that one option.
Word = Annotated[str, Field(pattern=r"^[\w.,:;=@%+&|*/()\[\]-]+$")]


class Slurm(BaseModel):
    """Jobs of one node each, which grade one submission at a time on one GPU or on `cpus` cores."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheduler: Literal["slurm"]
    walltime: str = Field(pattern=r"^\d{1,3}:[0-5]\d:[0-5]\d$")
    blocks: int = Field(ge=1, le=1000, description="jobs at a time, at most")
    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    constraint: Word | None = None
    gres: str | None = Field(default=None, pattern=r"^gpu(:[\w.-]+)?:1$")
    device: str = "cpu"
    cpus: int = Field(default=4, ge=1)
    memory_gib: int | None = Field(default=None, ge=1)
    options: tuple[Word, ...] = Field(default=(), description="further options of sbatch")
    modules: tuple[Word, ...] = ()
    worker_init: str = ""
    shared: Path = Path("~/.kernel-grader")
    address: str | None = None

    @property
    def walltime_s(self) -> int:
        """The walltime in seconds."""
        hours, minutes, seconds = map(int, self.walltime.split(":"))
        return 3600 * hours + 60 * minutes + seconds

    @model_validator(mode="after")
    def _a_gpu_has_a_model(self) -> Self:
        if self.gres is not None and self.device == "cpu":
            raise ValueError(
                "device: is missing; with gres, give the model that all GPUs of the partition have, as "
                "`nvidia-smi --query-gpu=name --format=csv,noheader` prints it on a node"
            )
        if self.gres is None and self.device != "cpu":
            raise ValueError("device: is a GPU's, but no job asks for one; add gres: gpu:1")
        return self


@dataclass(frozen=True)
class ParslFile:
    """`config` of a Python file; `device` is the model of its GPUs, or "cpu"."""

    config: Any
    device: str


def load_cluster_file(path: Path) -> Slurm | ParslFile:
    """Read and check the file. Raises ClusterError."""
    return _load_python(path) if path.suffix == ".py" else _load_yaml(path)


def _load_yaml(path: Path) -> Slurm:
    data, root = read_mapping(path, partial(ClusterError, path), start="'scheduler: slurm'", option="--cluster")
    try:
        # The base loader leaves scalars as text: another one reads 1:30:00 as a number to the base 60.
        return Slurm.model_validate(yaml.load(data, Loader=yaml.BaseLoader))  # noqa: S506 - makes only text
    except ValidationError as error:
        first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        where = ".".join(map(str, first["loc"]))
        problem = str(cause) if cause is not None else f"{where}: {_explain(first)}"
        raise ClusterError(path, line_of(root, first["loc"]), problem) from None


def _explain(error: Any) -> str:
    key = error["loc"][-1]
    if error["type"] == "extra_forbidden":
        return f"is not a key here; known: {', '.join(Slurm.model_fields)}"
    if error["type"] == "missing":
        return "is missing; add it"
    if error["type"] == "string_pattern_mismatch":
        wanted = {
            "walltime": 'must be H:MM:SS, as "4:00:00"',
            "gres": "must ask for one GPU, gpu:1 or gpu:TYPE:1; for more at a time, raise blocks",
        }
        return f"{wanted.get(key, 'must be one word without quotes')} (found {error['input']!r})"
    return f"{error['msg']} (found {error['input']!r})"


def _load_python(path: Path) -> ParslFile:
    """Staff's own code, run as it is."""
    require_parsl(path)
    from parsl import Config

    try:
        names: dict[str, Any] = {"__file__": str(path), "__name__": "cluster"}
        exec(compile(path.read_bytes(), path, "exec"), names)  # noqa: S102 - a configuration in Python is code
    except OSError as error:
        raise ClusterError(path, None, f"can't be read: {error.strerror or error}") from None
    except SyntaxError as error:
        raise ClusterError(path, error.lineno, f"is not Python: {error.msg}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the file raises is its author's to mend
        lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(path)]
        raise ClusterError(path, lines[-1] if lines else None, f"raised {type(error).__name__}: {error}") from None
    if not isinstance(names.get("config"), Config):
        raise ClusterError(path, None, "must define `config`, a parsl.Config; a short file for Slurm ends in .yaml")
    device = names.get("device", "cpu")
    if not isinstance(device, str):
        raise ClusterError(path, None, 'device must be text: the model of the GPUs, or "cpu"')
    return ParslFile(names["config"], device)


def require_parsl(path: Path) -> None:
    """Raise ClusterError where Parsl is not installed."""
    import importlib.util

    if importlib.util.find_spec("parsl") is None:
        raise ClusterError(path, None, "--cluster needs parsl: pip install 'kernel-grader[cluster]'")
