"""The lock per GPU: timing is alone, the rest shares, nobody starves. Needs no GPU."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import pytest

from grader.errors import InfrastructureError
from grader.gpu_lock import held

WAIT_S = 0.3  # long enough to see that somebody is kept waiting


@pytest.fixture
def gpu(tmp_path, monkeypatch) -> str:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return f"GPU-{uuid.uuid4()}"


def holding(gpu: str, *, alone: bool) -> tuple[threading.Event, Callable[[], None]]:
    """Hold it in another thread. Gives when it has it, and how to let go."""
    has, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with held(gpu, alone=alone):
            has.set()
            assert let_go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()

    def end() -> None:
        let_go.set()
        thread.join(30)

    return has, end


def test_many_share_it_and_who_times_waits_for_them(gpu):
    first, end_first = holding(gpu, alone=False)
    second, end_second = holding(gpu, alone=False)
    assert first.wait(10)
    assert second.wait(10)
    timing, end_timing = holding(gpu, alone=True)
    assert not timing.wait(WAIT_S)
    end_first()
    assert not timing.wait(WAIT_S)
    end_second()
    assert timing.wait(10)
    sharing, end_sharing = holding(gpu, alone=False)
    assert not sharing.wait(WAIT_S)
    end_timing()
    assert sharing.wait(10)
    end_sharing()


def test_who_comes_to_share_later_does_not_overtake_who_waits_to_time(gpu):
    first, end_first = holding(gpu, alone=False)
    assert first.wait(10)
    timing, end_timing = holding(gpu, alone=True)
    assert not timing.wait(WAIT_S)
    late, end_late = holding(gpu, alone=False)
    assert not late.wait(WAIT_S)
    end_first()
    assert timing.wait(10)
    assert not late.wait(WAIT_S)
    end_timing()
    assert late.wait(10)
    end_late()


def test_waiting_ends_with_the_graders_fault_and_other_gpus_are_free(gpu):
    has, end = holding(gpu, alone=True)
    assert has.wait(10)
    with (
        pytest.raises(InfrastructureError, match="another grader has timed for too long"),
        held(gpu, alone=True, timeout_s=WAIT_S),
    ):
        pass
    with held(f"{gpu}-other", alone=True, timeout_s=WAIT_S):
        pass
    end()
