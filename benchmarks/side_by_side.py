"""Processes side by side, each with a share of the cores, one of the GPUs, and a machine of its own to judge with."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.queues import Queue
from multiprocessing.util import Finalize

from kernels import ROOT

from grader.machine import DeviceChoice, Machine
from grader.rubric import load_rubric

_machine: Machine | None = None


def side_by_side(processes: int, gpus: Sequence[str] = ()) -> ProcessPoolExecutor:
    """A pool of so many processes; `gpus` are taken in turn. What runs in it may ask for `machine`."""
    fresh = multiprocessing.get_context("spawn")  # a process that was forked could not use CUDA
    cores = sorted(os.sched_getaffinity(0))
    places = fresh.Queue()
    for number in range(processes):
        share = cores[number * len(cores) // processes : (number + 1) * len(cores) // processes]
        places.put((share or cores, gpus[number % len(gpus)] if gpus else None))
    return ProcessPoolExecutor(processes, fresh, _take_place, (places,))


def _take_place(places: Queue[tuple[list[int], str | None]]) -> None:
    cores, gpu = places.get()
    os.sched_setaffinity(0, cores)
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu


def machine(choice: DeviceChoice) -> Machine:
    """This process's workers, with the limits of the rubric."""
    global _machine
    if _machine is None:
        _machine = Machine(load_rubric(ROOT / "rubric.yaml").rubric.limits, choice)
        Finalize(None, _machine.close, exitpriority=0)  # what `atexit` keeps is not called in such processes
    return _machine
