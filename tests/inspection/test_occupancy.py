"""Blocks a multiprocessor, and waves of a grid, against NVIDIA's calculator and the examples of lecture and guide."""

from __future__ import annotations

import ast
import csv
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import hardware
from grader.errors import SelectionError
from grader.occupancy import ARCHITECTURES, occupancy, waves

# What cuda_occupancy.h of CUDA 13.5 gives, with shared memory opted in to and the largest carve-out.
FIGURES = list(csv.DictReader((Path(__file__).parent / "occupancy.csv").read_text().splitlines()))


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: "-".join(row.values()))
def test_blocks_are_those_of_nvidias_calculator(row):
    target, num_warps, registers, shared_bytes, blocks = map(int, row.values())
    assert occupancy(target, num_warps, registers, shared_bytes).blocks == blocks


@pytest.mark.parametrize("target", [80, 90, 100])
def test_the_lectures_block_of_128_threads_with_160_registers_fits_three_times(target):
    found = occupancy(target, 4, 160, 0)
    assert (found.blocks, found.limited_by) == (3, "registers")


@pytest.mark.parametrize(("num_warps", "blocks", "share"), [(4, 12, 0.75), (10, 4, 0.625)])
def test_the_example_of_the_best_practices_guide(num_warps, blocks, share):
    # 37 registers; 12 blocks of 128 threads but only 4 of 320: registers are given out a warp at a time.
    found = occupancy(80, num_warps, 37, 0)
    assert (found.blocks, found.share) == (blocks, share)


def test_every_resource_can_be_the_limit():
    assert occupancy(80, 8, 32, 0).limited_by == "registers, warps"
    assert occupancy(90, 1, 16, 0).limited_by == "blocks"
    assert occupancy(80, 4, 32, 100_000).limited_by == "shared memory"
    assert occupancy(100, 4, 32, 1024, 512).limited_by == "tensor memory"


def test_a_block_that_fits_nowhere_gives_zero():
    assert occupancy(86, 4, 32, 102_400).blocks == 0
    assert occupancy(90, 64, 16, 0).blocks == 0
    assert occupancy(90, 4, 256, 0).blocks == 0


def worker_limits():
    source = Path(__file__).parent.parent.parent / "grader/worker/compiling/resources.py"
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_SHARED_LIMIT_BYTES":
            return ast.literal_eval(node.value)
    raise AssertionError("the worker's table has another name")


@pytest.mark.parametrize("target", ARCHITECTURES)
def test_a_block_may_ask_for_the_shared_memory_that_triton_compares_with(target):
    # The worker, which can't import this, has the same limits. Read, not imported: that would bring in Triton.
    most = ARCHITECTURES[target].most_shared_per_block
    assert worker_limits()[target] == most
    assert occupancy(target, 4, 32, most).blocks == 1
    assert occupancy(target, 4, 32, most + 1).blocks == 0


def test_the_lectures_160_blocks_leave_12_for_a_second_wave_of_148():
    found = waves(160, 1, 148)
    assert found.last_idle == pytest.approx(1 - 12 / 148)
    assert found.lost == pytest.approx((1 - 12 / 148) / 2)


def test_a_matrix_of_1793_takes_a_second_wave_where_1792_took_one():
    # Tiles of 256×128 on an A100's 108 multiprocessors.
    def grid(n):
        return ceil(n / 256) * ceil(n / 128)

    before, after = waves(grid(1792), 1, 108), waves(grid(1793), 1, 108)
    assert (grid(1792), grid(1793)) == (98, 120)
    assert before.count < 1
    assert after.count == pytest.approx(120 / 108)
    assert after.last_idle == pytest.approx(96 / 108)


def test_fewer_blocks_than_multiprocessors_leave_some_without_work():
    assert waves(66, 4, 132).last_idle == pytest.approx(0.5)
    assert waves(132, 4, 132).last_idle == 0


def test_a_grid_of_whole_waves_wastes_nothing():
    assert waves(2 * 132 * 3, 2, 132).last_idle == 0
    with pytest.raises(ValueError, match="no block fits"):
        waves(10, 0, 132)


@given(
    st.sampled_from(sorted(ARCHITECTURES)),
    st.sampled_from([1, 2, 4, 8, 16, 32]),
    st.integers(1, 255),
    st.integers(0, 232_448),
)
def test_more_of_anything_never_fits_more_often(target, num_warps, registers, shared_bytes):
    found = occupancy(target, num_warps, registers, shared_bytes)
    assert 0 <= found.share <= 1
    for more in (
        occupancy(target, 2 * num_warps, registers, shared_bytes),
        occupancy(target, num_warps, registers + 8, shared_bytes),
        occupancy(target, num_warps, registers, shared_bytes + 1024),
    ):
        assert more.blocks <= found.blocks


def test_gpus_are_found_by_the_names_that_people_give_them():
    assert hardware.named("rtx4090") == hardware.named("NVIDIA RTX 4090") == "RTX 4090"
    assert hardware.named("h200") == "H200"
    with pytest.raises(SelectionError, match="--gpu H300: this GPU is not known; known are B200, H200"):
        hardware.named("H300")


@pytest.mark.parametrize("name", hardware.GPUS)
def test_every_gpu_has_an_architecture_and_multiprocessors(name):
    assert hardware.GPUS[name].target in ARCHITECTURES
    assert hardware.GPUS[name].multiprocessors > 0
