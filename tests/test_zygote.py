"""The zygote: workers come and go from several threads, and whatever they leave behind is gone with them."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grader.loading import load_message
from grader.rubric import Limits
from grader.zygote import Zygote

CORPUS = Path(__file__).parent / "submissions/misbehaving"


@pytest.fixture(scope="module")
def zygote():
    started = Zygote(Limits())
    started.ready()
    yield started
    started.close()


def load(zygote: Zygote, source: str) -> tuple[object, float]:
    """Fork a worker, have it import a file, end it: its answer, and the seconds that all this took."""
    begun = time.monotonic()
    worker = zygote.fork()
    (worker.folder / "softmax.py").write_text(source)
    reply = worker.request(load_message(worker, "softmax.py", "softmax"), 10)
    worker.close()
    return reply, time.monotonic() - begun


def test_workers_of_several_threads_do_not_wait_for_each_other(zygote):
    """A fork request that arrived together with another message was once left lying for ten seconds."""
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda _: load(zygote, "def softmax(x): return x\n"), range(80)))
    assert all(reply["kind"] == "loaded" for reply, _ in outcomes)
    assert max(seconds for _, seconds in outcomes) < 8


def test_a_killed_zygote_is_replaced(zygote):
    os.kill(zygote._process.pid, 9)
    reply, _ = load(zygote, "def softmax(x): return x\n")
    assert reply["kind"] == "loaded"


def test_a_worker_changes_no_code_of_the_zygote_that_comes_next(zygote):
    """Without a sandbox it can write to the copy that it runs from."""
    source = """
        from pathlib import Path
        import grader.worker
        for path in Path(grader.worker.__file__).parent.rglob("*.py"):
            path.write_text("raise SystemExit(9)")
        def softmax(x): return x
        """
    load(zygote, textwrap.dedent(source))
    os.kill(zygote._process.pid, 9)
    reply, _ = load(zygote, "def softmax(x): return x\n")
    assert reply["kind"] == "loaded"


def test_children_of_a_worker_end_with_it(zygote):
    source = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n"
    reply, _ = load(zygote, source + "    os._exit(0)\ndef softmax(x): return x\n")
    assert reply["kind"] == "loaded"
    assert len(descendants(zygote._process.pid)) == 0


def descendants(pid: int, besides: Sequence[int] = ()) -> list[int]:
    """The processes below one, besides those that were there before; they get a few seconds to end."""
    deadline = time.monotonic() + 5
    while True:
        parents = {int(path.name): parent(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
        found, above = [], [pid]
        while above:
            children = [child for child, its_parent in parents.items() if its_parent in above]
            found, above = found + children, children
        left = [process for process in found if process not in besides]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def parent(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
