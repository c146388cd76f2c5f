"""Processes side by side, each with a share of the cores, one of the GPUs, and a machine of its own to judge with."""

from __future__ import annotations

import argparse
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.queues import Queue
from multiprocessing.util import Finalize

from kernels import ROOT

from grader.machine import DeviceChoice, Machine
from grader.rubric import load_rubric

_machine: Machine | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for where to judge and in how many processes."""
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--gpus", default="", help="which, by number or UUID, where there are several")
    parser.add_argument("--processes", type=int, default=1, help="side by side, each with a share of cores and GPUs")


def side_by_side(options: argparse.Namespace) -> ProcessPoolExecutor:
    """The pool that these options ask for; the GPUs are taken in turn. What runs in it may ask for `machine`."""
    fresh = multiprocessing.get_context("spawn")  # a process that was forked could not use CUDA
    cores = sorted(os.sched_getaffinity(0))
    gpus = [gpu for gpu in options.gpus.split(",") if gpu]
    places = fresh.Queue()
    for number in range(options.processes):
        share = cores[number * len(cores) // options.processes : (number + 1) * len(cores) // options.processes]
        places.put((share or cores, gpus[number % len(gpus)] if gpus else None))
    return ProcessPoolExecutor(options.processes, fresh, _take_place, (places,))


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
