"""Each promise of each sandbox level, kept by the levels that this machine has; and what is said where it has none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from grader import bubblewrap, probe, sandbox
from grader.cgroup import Cgroup, CgroupError
from grader.errors import SelectionError
from grader.grading import Grading
from grader.home import Home, remove_tree
from grader.loading import load_message
from grader.machine import Machine
from grader.result import Result
from grader.rubric import Limits
from grader.runner import WorkerGone
from grader.sandbox import LEVELS, Facts, Sandbox, Trial, attempt, choose, group_problem
from grader.submission import Submission
from grader.worker import landlock
from grader.zygote import Zygote
from tests.corpus import ROOT, rubric_for

LIMITS = Limits(tmp_mib=32)
TRIALS = {level: attempt(level) for level in LEVELS}
folders = [folder for prefix in (sys.prefix, sys.base_prefix) for folder in (Path(prefix), *Path(prefix).parents)]
PRIVATE = [str(folder) for folder in folders if not folder.stat().st_mode & 1 and os.getuid() == 0]
for level in ("L1", "L2"):  # as in a container that allows no namespaces
    plain = Sandbox(level, replace(TRIALS[level].sandbox.facts, namespaces="left out"))
    missing = TRIALS[level].missing or (f"other users can't get into {PRIVATE[0]}" if PRIVATE else "")
    TRIALS[f"{level} without namespaces"] = Trial(plain, missing)
# Levels below the highest have little of their own: what is tested quickly is none and the highest.
BETWEEN = [level for level in ("L1", "L2", "L3") if not TRIALS[level].missing][:-1]
levels = pytest.mark.parametrize(
    "level",
    [pytest.param(level, marks=[pytest.mark.skip(reason=f"{level}: {trial.missing}")] if trial.missing
                  else [pytest.mark.slow] if level in BETWEEN else [])
     for level, trial in TRIALS.items()],
)  # fmt: skip


above_none = pytest.mark.parametrize("level", levels.args[1][1:])


class Session:
    """A zygote at a level, the probe's attempts in it, and what its workers answer to a file."""

    def __init__(self, level: str) -> None:
        self.zygote = Zygote(LIMITS, sandbox=TRIALS[level].sandbox)
        self.attempts = {each.name: each for each in probe.run(self.zygote)}

    def load(self, source: str, timeout_s: float = 20, **limits: int) -> tuple[object, str]:
        self.zygote.limits = LIMITS.model_copy(update=limits)
        worker = self.zygote.fork()
        (worker.folder / "gelu.py").write_text(textwrap.dedent(source) + "\ndef gelu(x): return x\n")
        reply = worker.request(load_message(worker, "gelu.py", "gelu"), timeout_s)
        worker.close()
        self.zygote.limits = LIMITS
        return reply, worker.output.decode()


@pytest.fixture(scope="module")
def session():
    """One session a level: a zygote takes seconds to start."""
    made: dict[str, Session] = {}

    def at(level: str) -> Session:
        if level not in made:
            made[level] = Session(level)
        return made[level]

    yield at
    for each in made.values():
        each.zygote.close()


@levels
@pytest.mark.parametrize("name", list(probe.PROMISED))
def test_a_level_refuses_what_it_promises(session, level, name):
    made = session(level).attempts[name]
    assert made.refused or not made.promised, made.detail


def test_the_probe_attacks_in_earnest(session):
    """Without a sandbox its attempts succeed: none of them is refused for a reason of its own."""
    allowed = {name for name, made in session("L0").attempts.items() if not made.refused}
    assert {"judge_file", "reference", "other_submission", "other_worker", "judge_environ", "judge_command",
            "judge_maps", "signal_judge", "signal_zygote", "connect", "look_up", "write_outside", "change_source",
            "change_code", "shared_memory", "fill_tmp"} <= allowed  # fmt: skip


def test_every_attempt_has_a_promise_and_a_title():
    assert probe.titles().keys() == probe.PROMISED.keys()
    assert all(probe.titles().values())


@levels
def test_time_on_the_clock_and_on_the_processor_is_bounded(session, level):
    asleep, _ = session(level).load("import time\ntime.sleep(60)", timeout_s=2)
    assert isinstance(asleep, WorkerGone)
    assert asleep.timed_out
    busy, _ = session(level).load("while True: pass", timeout_s=30, cpu_s=1)
    assert isinstance(busy, WorkerGone)
    assert not busy.timed_out


@above_none
def test_a_worker_has_a_tmp_that_no_other_sees(session, level):
    source = """
        import os, tempfile
        from pathlib import Path
        print("mine" in os.listdir(tempfile.gettempdir()), os.environ["HOME"] == tempfile.gettempdir())
        Path(tempfile.gettempdir(), "mine").write_text("x")
        """
    answers = [session(level).load(source) for _ in range(2)]
    assert [(reply["kind"], output) for reply, output in answers] == [("loaded", "False True\n")] * 2


@above_none
def test_a_worker_may_end_its_own_processes(session, level):
    reply, output = session(level).load("""
        import signal, subprocess
        sleeper = subprocess.Popen(["sleep", "60"])
        sleeper.send_signal(signal.SIGTERM)
        print(sleeper.wait())
        """)
    assert (reply["kind"], output) == ("loaded", "-15\n"), reply


@above_none
def test_a_right_submission_passes(session, level):
    machine = Machine(LIMITS, "cpu")
    machine.interpreter, machine.sandbox = session(level).zygote, TRIALS[level].sandbox
    grading = Grading(rubric_for("gelu", "gelu.py", generated=1), Submission(ROOT / "reference/solutions"), machine)
    items = [item for item in grading.items if item.dtype == "float32" and item.check in ("aligned", "compiles")]
    verdicts = [grading.grade(item).verdict for item in items]
    assert [verdict.message for verdict in verdicts] == ["", ""]
    assert grading.result().environment.sandbox == level[:2]


@above_none
def test_a_dead_zygote_takes_its_workers_along_and_is_replaced(session, level):
    zygote = session(level).zygote
    worker = zygote.fork()
    os.kill(zygote._process.pid, 9)
    assert isinstance(worker.wait(20), WorkerGone)
    reply, _ = session(level).load("")
    assert reply["kind"] == "loaded"
    worker.close()


def test_a_run_says_which_sandbox_it_had(tmp_path):
    highest = max(level for level in LEVELS if not TRIALS[level].missing)
    only = ["--submission", "reference/solutions", "--exercise", "gelu", "-k", "aligned-float32"]
    command = [sys.executable, "-P", "-m", "pytest", "grader", *only, "--sandbox", "auto",
               "--result", str(tmp_path / "result.json")]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert Result.model_validate_json((tmp_path / "result.json").read_text()).environment.sandbox == highest


def answer(**changed: object) -> dict[str, object]:
    """What a trial says on a machine that has everything, but for what is changed."""
    facts = {"drop_uid": "", "namespaces": "", "seccomp": "", "landlock": 6, **changed}
    return {"facts": facts, "problem": ""}


@pytest.fixture
def machine(monkeypatch):
    """Fakes a machine: its user, bubblewrap, and what its trials answer."""

    def fake(*, uid: int, bwrap: bool, **changed: object) -> None:
        monkeypatch.setattr(os, "getuid", lambda: uid)
        monkeypatch.setattr(os, "chown", lambda *_: None)
        monkeypatch.setattr(bubblewrap, "program", lambda: "/usr/bin/bwrap" if bwrap else None)
        monkeypatch.setattr(sandbox, "_ask", lambda _: answer(**changed))

    return fake


@pytest.mark.parametrize(
    ("uid", "bwrap", "changed", "highest"),
    [
        (0, True, {}, "L3"),
        (1000, True, {}, "L3"),
        (0, False, {}, "L2"),
        (1000, False, {}, "L2"),
        (1000, False, {"namespaces": "Operation not permitted"}, "L2"),
        (0, False, {"landlock": 0}, "L1"),
        (0, True, {"landlock": 0}, "L3"),
        (0, False, {"seccomp": "Invalid argument"}, "L1"),
        (1000, False, {"landlock": 0}, "L0"),
        (0, True, {"drop_uid": "Invalid argument"}, "L0"),
    ],
)
def test_auto_takes_the_highest_level_there_is(machine, uid, bwrap, changed, highest):
    machine(uid=uid, bwrap=bwrap, **changed)
    assert choose("auto").level == highest


@pytest.mark.parametrize(
    ("level", "uid", "changed", "reason"),
    [
        ("L1", 1000, {}, "only where the grader runs as root"),
        ("L1", 0, {"drop_uid": "Invalid argument"}, r"can't become another user \(Invalid argument\)"),
        ("L2", 1000, {"landlock": 0}, "the kernel has no Landlock; use Linux 5.13"),
        ("L2", 0, {"seccomp": "Invalid argument"}, "no system call filter"),
        ("L3", 0, {}, "bubblewrap is not installed; apt-get install bubblewrap"),
    ],
)
def test_a_level_that_is_not_there_is_refused_with_its_reason(machine, level, uid, changed, reason):
    machine(uid=uid, bwrap=False, **changed)
    with pytest.raises(SelectionError, match=f"--sandbox {level}: not possible here: .*{reason}"):
        choose(level)


def test_a_trial_that_fails_is_the_reason(monkeypatch):
    monkeypatch.setattr(bubblewrap, "program", lambda: "/usr/bin/bwrap")
    monkeypatch.setattr(sandbox, "_ask", lambda _: {"problem": "setting up uid map: Permission denied"})
    with pytest.raises(SelectionError, match=r"setting up uid map: Permission denied.*kernel.apparmor_restrict"):
        choose("L3")


def test_what_the_machine_lacks_is_left_out_of_a_level():
    home = Home()
    try:
        lacking = Sandbox("L3", Facts(landlock=0, seccomp="no", namespaces="no", root=False)).settings(home, gpu=False)
        assert (lacking["landlock"], lacking["seccomp"], lacking["private_mounts"]) == (False, False, True)
        second = Sandbox("L2", Facts(landlock=1, namespaces="no", root=True)).settings(home, gpu=False)
        assert (second["namespaces"], second["private_mounts"], second["drop_uid"]) == (False, False, True)
    finally:
        home.close()


@pytest.mark.parametrize(("gpu", "answer"), [(True, "renamed"), (False, "refused")])
def test_with_a_gpu_a_worker_may_name_its_threads(gpu, answer, tmp_path):
    """CUDA's driver does so while it starts, and fails where it can't."""
    if not landlock.version():
        pytest.skip("this kernel has no Landlock")
    source = f"""
        import threading
        from grader.worker import confine, landlock, linux
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        landlock.restrict(confine._allowed({{"read": [], "gpu": {gpu}}}, {str(tmp_path)!r}, {str(tmp_path)!r}))
        def name():
            try:
                open(f"/proc/self/task/{{threading.get_native_id()}}/comm", "w").write("cuda")
                print("renamed")
            except PermissionError:
                print("refused")
        thread = threading.Thread(target=name)
        thread.start()
        thread.join()
        """
    command = [sys.executable, "-P", "-c", textwrap.dedent(source)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == [answer], done.stderr


@pytest.mark.parametrize(
    ("folders", "readable"),
    [(["gcc/bin", "gcc/lib/gcc"], "gcc"), (["gcc/bin", "gcc/private"], "gcc/bin/gcc")],
)
def test_with_a_gpu_the_compiler_of_the_launcher_is_readable_wherever_it_is(folders, readable, tmp_path, monkeypatch):
    """Its whole folder only where that is the compiler's own."""
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    program = tmp_path / "gcc/bin/gcc"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.delenv("CC", raising=False)
    home = Home()
    try:
        by_gpu = {gpu: Sandbox("L2").settings(home, gpu=gpu)["read"] for gpu in (True, False)}
    finally:
        home.close()
    assert [path for path in by_gpu[True] if path.startswith(str(tmp_path))] == [str(tmp_path / readable)]
    assert not [path for path in by_gpu[False] if path.startswith(str(tmp_path))]


def test_a_level_that_is_missing_is_one_line_and_exit_status_2():
    command = [sys.executable, "-P", "-m", "pytest", "grader", "--sandbox", "L3"]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": "/nowhere", "PYTHONPATH": str(ROOT)}, capture_output=True,
                          text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == ("error: --sandbox L3: not possible here: bubblewrap is not installed; apt-get install "
                           "bubblewrap; or use --sandbox auto\n")  # fmt: skip


def test_profiled_workers_are_not_sandboxed():
    with pytest.raises(SelectionError, match="--spawn-workers is for profiling"):
        Machine(Limits(), "cpu", spawn=True, sandbox="auto")


def test_doctor_probes():
    command = [sys.executable, "-P", "-m", "grader.cli", "doctor", "--probe", "--sandbox", "L0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert "sandbox: up to L" in done.stdout
    rows = {cells[1].strip(): cells[2].strip() for line in done.stdout.splitlines() if (cells := line.split("│"))[1:]}
    assert rows["read another submission"] == "allowed"
    assert rows["leave a process behind"] == "refused"


def test_a_control_group_of_version_2_gets_all_limits(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids")
    made = Cgroup.create(1 << 20, 7, tmp_path)
    assert len(made.folders) == 1
    limits = {path.name: path.read_text() for path in made.folders[0].iterdir()}
    assert limits == {"memory.max": str(1 << 20), "pids.max": "7"}


def test_a_control_group_of_version_1_has_a_folder_for_each_limit(tmp_path):
    for name in ("memory", "pids"):
        (tmp_path / name).mkdir()
    made = Cgroup.create(1 << 20, 7, tmp_path)
    assert [path.parent.name for path in made.folders] == ["memory", "pids"]


def test_without_a_place_for_control_groups_there_is_none(tmp_path):
    with pytest.raises(CgroupError):
        Cgroup.create(1 << 20, 7, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(bool(group_problem()), reason=f"no control group: {group_problem()}")
@pytest.mark.parametrize(
    "source",
    [
        "import mmap; mmap.mmap(-1, 256 << 20).write(bytes(256 << 20))",
        "import os, time\nfor _ in range(20):\n  if os.fork() == 0: time.sleep(5); os._exit(0)",
    ],
)
def test_a_control_group_bounds_shared_memory_and_processes(source):
    group = Cgroup.create(128 << 20, 8)
    try:
        done = subprocess.run(group.command([sys.executable, "-I", "-c", source]), capture_output=True, check=False)
        assert done.returncode != 0
        assert done.returncode != 97, "it did not get into the group"
    finally:
        for folder in group.folders:
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        group.close()
    assert not any(folder.exists() for folder in group.folders)


def test_a_folder_of_any_depth_is_removed(tmp_path):
    start, folder = Path.cwd(), tmp_path / "deep"
    folder.mkdir()
    try:
        os.chdir(folder)
        for _ in range(3000):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(start)
    remove_tree(folder)
    assert not folder.exists()
