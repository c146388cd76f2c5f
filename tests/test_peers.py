"""What PyTorch's baselines take: timed by a process of its own, and once for all graders of a batch."""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading

import pytest

from grader import peers
from grader.errors import InfrastructureError
from grader.gpu_lock import held
from grader.peer_times import PeerTimes
from grader.peers import Peers
from reference.exercise import Case

CASES = [Case.parse(f"gelu/speed/float32/x:{size}:normal:contiguous/0") for size in (1024, 4096)]
# In place of the process that compiles and times: says which cases it is asked for.
CLOCK = """
import json, sys
cases = json.loads(sys.stdin.readline())
print(json.dumps("ready"), flush=True)
for number, line in enumerate(sys.stdin):
    print(json.dumps({"eager": len(cases) + number / 10, "compile": "no compiler"}), flush=True)
"""


@pytest.fixture
def clock(monkeypatch):
    """Counts the processes that are started."""
    started = []
    popen = peers.subprocess.Popen

    def counted(*arguments, **options):
        started.append(arguments)
        return popen(*arguments, **options)

    monkeypatch.setattr(peers, "_PROGRAM", (sys.executable, "-c", CLOCK))
    monkeypatch.setattr(peers.subprocess, "Popen", counted)
    return started


def times(cases, kept=None):
    found = Peers(cases, kept)
    found.wait()
    answers = [found.times_us(case) for case in cases]
    found.close()
    return answers


def test_a_grader_alone_times_each_case(clock):
    assert times(CASES) == [{"eager": 2.0, "compile": "no compiler"}, {"eager": 2.1, "compile": "no compiler"}]
    assert len(clock) == 1


def test_the_next_grader_of_a_batch_starts_no_process_and_has_the_same_times(clock, tmp_path):
    kept = PeerTimes(tmp_path / "times.json", "GPU-0")
    first = times(CASES, kept)
    assert times(CASES, kept) == first
    assert len(clock) == 1
    assert times(CASES, PeerTimes(tmp_path / "times.json", "GPU-1")) == first  # another GPU is timed by itself
    assert len(clock) == 2


def test_only_cases_that_nobody_has_timed_are_compiled(clock, tmp_path):
    kept = PeerTimes(tmp_path / "times.json", "GPU-0")
    kept.add(CASES[0], {"eager": 7.0})
    assert times(CASES, kept) == [{"eager": 7.0}, {"eager": 1.0, "compile": "no compiler"}]


@pytest.mark.parametrize("text", ["{half", "[1]", '{"GPU-0": 7}', "\udcff"])
def test_a_file_that_can_not_be_read_or_written_costs_time_only(clock, tmp_path, text):
    (tmp_path / "times.json").write_text(text, errors="surrogateescape")
    assert times(CASES, PeerTimes(tmp_path / "times.json", "GPU-0"))[0]["eager"] == 2.0
    assert times(CASES, PeerTimes(tmp_path / "missing/times.json", "GPU-0"))[0]["eager"] == 2.0


def test_a_process_that_ends_leaves_no_times_and_nothing_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "_PROGRAM", (sys.executable, "-c", "pass"))
    kept = PeerTimes(tmp_path / "times.json", "GPU-0")
    assert times(CASES, kept) == [{}, {}]
    assert kept.missing(CASES) == CASES


def add(path, gpu, both):
    both.wait()
    for size in range(1, 101):
        PeerTimes(path, gpu).add(Case.parse(f"gelu/speed/float32/x:{size}:normal:contiguous/0"), {"eager": float(size)})


def test_graders_that_write_at_once_lose_nothing(tmp_path):
    path, gpus = tmp_path / "times.json", ("GPU-0", "GPU-1")
    spawn = multiprocessing.get_context("spawn")
    both = spawn.Barrier(2)
    writers = [spawn.Process(target=add, args=(path, gpu, both)) for gpu in gpus]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    written = json.loads(path.read_text())
    assert {gpu: len(written[gpu]) for gpu in gpus} == dict.fromkeys(gpus, 100)


def test_nothing_is_compiled_while_another_grader_times(monkeypatch, tmp_path):
    gpu = "GPU-0"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("grader.device.current_uuid", lambda: gpu)
    compiled = []

    class Clock:
        def compile(self, text):
            with pytest.raises(InfrastructureError), held(gpu, alone=True, timeout_s=0.05):
                pass
            compiled.append(text)

    compiling = threading.Thread(target=peers._compile, args=(Clock(), ["one", "another"]))
    with held(gpu, alone=True):
        compiling.start()
        compiling.join(0.2)
        assert not compiled
    compiling.join(10)
    assert compiled == ["one", "another"]
