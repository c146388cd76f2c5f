"""The file of `--cluster`, and a class graded by Parsl's workers on this machine; `tests/slurm` has a real Slurm."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from grader.batch.cluster_file import ParslFile, Slurm, load_cluster_file
from grader.batch.ledger import Ledger
from grader.batch.run import Options, grade_class
from grader.errors import ClusterError, GraderError

ROOT = Path(__file__).parent.parent
CHILD = (sys.executable, str(ROOT / "tests/batch_child.py"))
SHORT = "scheduler: slurm\nwalltime: 4:00:00\nblocks: 4\n"


def written(folder: Path, text: str, name: str = "cluster.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_short_file_says_what_a_job_asks_for(tmp_path):
    gpu = "partition: gpu\naccount: cs149\ngres: gpu:h100:1\ndevice: NVIDIA H100 80GB HBM3\nmodules: [cuda/12.9]\n"
    slurm = load_cluster_file(written(tmp_path, SHORT + gpu))
    assert isinstance(slurm, Slurm)
    assert (slurm.walltime, slurm.walltime_s) == ("4:00:00", 14400)  # which YAML would read as a number
    assert (slurm.gres, slurm.device, slurm.modules) == ("gpu:h100:1", "NVIDIA H100 80GB HBM3", ("cuda/12.9",))
    assert load_cluster_file(written(tmp_path, SHORT)).device == "cpu"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- slurm\n", "cluster.yaml:1: must be a mapping that starts with 'scheduler: slurm'"),
        ("scheduler: slurm\nblocks: 4\n", "cluster.yaml:1: walltime: is missing; add it"),
        (SHORT + "gpus: 2\n", "cluster.yaml:4: gpus: is not a key here; known: scheduler, walltime, blocks, partition"),
        (SHORT + "blocks: 5\n", "cluster.yaml:4: the key 'blocks' is given twice; keep one"),
        (SHORT.replace("4:00:00", "240"), 'cluster.yaml:2: walltime: must be H:MM:SS, as "4:00:00" (found \'240\')'),
        (SHORT + "device: A\ngres: gpu:4\n", "cluster.yaml:5: gres: must ask for one GPU, gpu:1 or gpu:TYPE:1; "),
        (SHORT + "gres: gpu:1\n", "device: is missing; with gres, give the model"),
        (SHORT + "device: NVIDIA H200\n", "device: is a GPU's, but no job asks for one; add gres: gpu:1"),
        (SHORT + "partition: gpu --wait\n", "cluster.yaml:4: partition: must be one word without quotes"),
        (SHORT + "options:\n  - --x=1\n  - \"a\\nrm\"\n", "cluster.yaml:6: options.1: must be one word without quotes"),
    ],
)  # fmt: skip
def test_a_short_file_that_can_not_be_used_says_line_and_remedy(tmp_path, text, says):
    with pytest.raises(ClusterError) as error:
        load_cluster_file(written(tmp_path, text))
    assert says in str(error.value)


def test_without_parsl_the_extra_is_named(tmp_path, monkeypatch):
    real = __import__("importlib.util").util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name == "parsl" else real(name, *rest))
    with pytest.raises(ClusterError, match=r"--cluster needs parsl: pip install 'kernel-grader\[cluster\]'"):
        load_cluster_file(written(tmp_path, "config = 1\n", "cluster.py"))


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """Six submissions for fast children."""
    pytest.importorskip("parsl", reason="needs the extra `cluster`")
    for name in ("ada", "alan", "grace", "katherine", "linus", "mary"):
        (tmp_path / "class" / name).mkdir(parents=True)
        (tmp_path / "class" / name / "gelu.py").write_text(f"# {name}\n")
    rubric = written(tmp_path, "schema: grader.rubric/1\ntitle: Short\nseed: 1\nweights: {aligned: 1}\n"
                     "dtypes: [float32]\ncases: {generated: 1, budget_s: 5, case_timeout_s: 5}\n"
                     "exercises: {gelu: {points: 10}}\n", "rubric.yaml")  # fmt: skip
    program = (*CHILD, "--log", str(tmp_path / "log"))
    return Options(tmp_path / "class", tmp_path / "out", ROOT, rubric, unsafe=True, program=program, timeout_s=60)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("config = 1\n", r"cluster.py: must define `config`, a parsl.Config"),
        ("x = 1\nx +\n", r"cluster.py:2: is not Python: invalid syntax"),
        ("\n\nraise RuntimeError('no host')\n", r"cluster.py:3: raised RuntimeError: no host"),
        ("from parsl import Config\nconfig = Config()\ndevice = 1\n", r"cluster.py: device must be text"),
    ],
)
def test_a_parsl_file_that_can_not_be_used_says_why(options, tmp_path, text, says):
    with pytest.raises(ClusterError, match=says):
        load_cluster_file(written(tmp_path, text, "cluster.py"))


def test_a_walltime_must_outlast_a_submission_and_slurm_must_be_here(options, tmp_path, monkeypatch):
    file = written(tmp_path, SHORT)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ClusterError, match="sbatch is not on the PATH here"):
        grade_class(replace(options, cluster=file), Console())
    (tmp_path / "bin/sbatch").touch(0o755)
    with pytest.raises(ClusterError, match="walltime: 4:00:00 is not longer than one submission may take"):
        grade_class(replace(options, cluster=file, timeout_s=14400), Console())
    with pytest.raises(GraderError, match="--gpus 0: is for this machine"):
        grade_class(replace(options, cluster=file, gpus="0"), Console())


PARSL = """\
import sys
from pathlib import Path
from parsl import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider

scripts = Path(sys.executable).parent
config = Config(
    executors=[HighThroughputExecutor(
        address="127.0.0.1", max_workers_per_node=2, cores_per_worker=0.1, heartbeat_period=1,
        interchange_launch_cmd=[str(scripts / "interchange.py")],
        provider=LocalProvider(max_blocks=1, worker_init=f"export PATH={scripts}:$PATH PYTHONPATH=ROOT"),
    )],
    run_dir="RUN", initialize_logging=False, strategy_period=0.5,
)
"""


@pytest.mark.slow
def test_a_class_is_graded_by_parsls_workers(options, tmp_path, monkeypatch, capsys):
    text = PARSL.replace("ROOT", str(ROOT)).replace("RUN", str(tmp_path / "runinfo"))
    file = written(tmp_path, text, "cluster.py")
    assert isinstance(load_cluster_file(file), ParslFile)
    monkeypatch.setenv("GRADER_SEED", "918273645")
    # The worker of ada ends with its judge: its slot is lost once, and then there is another worker.
    (options.submissions / "ada/gelu.py").write_text("# kill my grader once\n")
    assert grade_class(replace(options, cluster=file, seed=918273645), Console(width=200)) == 0, capsys.readouterr().out
    shown = capsys.readouterr().out
    assert "6 submissions to grade (6 new) on cluster0, cluster1" in shown
    assert "ada: the grader failed on cluster" in shown
    assert "the cluster lost it: Task failure due to loss of worker" in shown
    assert len(Ledger.in_file(options.out / "ledger.sqlite").grades()) == 6
    asked = sorted((tmp_path / "log").read_text().splitlines())
    assert asked == ["ada gelu", *(f"{name} gelu" for name in ("ada", "alan", "grace", "katherine", "linus", "mary"))]
    assert json.loads((options.out / "results/mary.json").read_text())["environment"]["seed"] == 918273645
    secret = b"918273645"
    left = [path for path in tmp_path.rglob("*") if path.is_file() and options.out not in path.parents]
    assert not [path for path in left if secret in path.read_bytes()]
    assert "GRADER_SEED" not in os.environ
