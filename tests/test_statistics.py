"""Timing statistics and hardware limits: pure functions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import hardware
from grader.statistics import Speedup, credit, rounds_needed, speedup
from reference.exercise import Cost

seconds = st.floats(1e-6, 1.0)


def noisy(mean: float, spread: float, rounds: int, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [mean * (1 + spread * generator.gauss(0, 1)) for _ in range(rounds)]


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_holds_the_true_speedup(seed):
    measured = speedup(noisy(10.0, 0.01, 30, seed), noisy(2.0, 0.01, 30, seed + 1000))
    assert measured.low <= measured.median <= measured.high
    assert measured.low * 0.99 <= 5.0 <= measured.high * 1.01
    assert measured.half_width < 0.015


def test_more_rounds_make_a_narrower_interval():
    few = speedup(noisy(10, 0.02, 10, 1), noisy(2, 0.02, 10, 2))
    many = speedup(noisy(10, 0.02, 1000, 1), noisy(2, 0.02, 1000, 2))
    assert many.half_width < few.half_width / 3


def test_one_wild_round_does_not_move_the_median():
    baseline, submission = [10.0] * 21, [2.0] * 21
    submission[3] = 1e-9  # one round reported as nothing
    assert speedup(baseline, submission).median == 5.0


@pytest.mark.parametrize(("baseline", "submission"), [([], []), ([1.0], [1.0]), ([1.0, 2.0], [1.0])])
def test_too_few_or_unpaired_rounds_are_refused(baseline, submission):
    with pytest.raises(ValueError, match="pairs"):
        speedup(baseline, submission)


@given(seconds, st.floats(0.1, 10), st.floats(1.01, 10))
def test_credit_is_bounded_and_grows_with_the_speedup(median, floor, factor):
    low, _ = credit(Speedup(median, median, median), floor, floor * factor)
    high, _ = credit(Speedup(median * 1.1, median * 1.1, median * 1.1), floor, floor * factor)
    assert 0 <= low <= high <= 1


def test_credit_begins_at_the_floor_and_is_whole_at_the_target():
    assert credit(Speedup(1.99, 1.98, 1.995), 2, 8) == (0.0, False)
    assert credit(Speedup(8.5, 8.4, 8.6), 2, 8) == (1.0, False)
    half, _ = credit(Speedup(4.0, 3.9, 4.1), 2, 8)
    assert half == pytest.approx(0.5)


def test_an_interval_across_a_threshold_counts_for_the_student_and_is_marked():
    assert credit(Speedup(7.95, 7.8, 8.1), 2, 8) == (1.0, True)
    earned, borderline = credit(Speedup(1.99, 1.9, 2.05), 2, 8)
    assert (earned, borderline) == (0.0, True)


def test_rounds_that_differ_wildly_get_no_benefit():
    earned, borderline = credit(Speedup(4.0, 1.0, 9.0), 2, 8)
    assert borderline
    assert earned == pytest.approx(0.5)


def test_the_number_of_rounds_follows_what_is_left_to_decide():
    clear = rounds_needed(Speedup(5, 4.95, 5.05), 6, (2, 8), 12, 60, 0.003)
    close = rounds_needed(Speedup(5, 4.95, 5.05), 6, (4.98, 8), 12, 60, 0.003)
    assert clear == 12
    assert close == 60


def test_the_longest_matching_name_wins():
    assert hardware.lookup("NVIDIA H200") is hardware.GPUS["H200"]
    assert hardware.lookup("NVIDIA H100 PCIe") is hardware.GPUS["H100 PCIe"]
    assert hardware.lookup("NVIDIA H100 80GB HBM3") is hardware.GPUS["H100"]
    assert hardware.lookup("NVIDIA A100-SXM4-80GB") is hardware.GPUS["A100-SXM4-80GB"]
    assert hardware.lookup("NVIDIA L40S") is hardware.GPUS["L40S"]
    assert hardware.lookup("NVIDIA L4") is hardware.GPUS["L4"]
    assert hardware.lookup("NVIDIA GeForce RTX 4090") is hardware.GPUS["RTX 4090"]
    assert hardware.lookup("Some New GPU") is None


def test_an_unknown_gpu_is_bounded_by_what_was_measured_with_a_margin():
    unknown = hardware.limits("Some New GPU", 1000.0, 100.0)
    assert unknown.bandwidth_gb_s == 1250.0
    assert hardware.limits("NVIDIA H200", 1.0, 1.0) is hardware.GPUS["H200"]


def test_the_least_time_is_the_larger_of_moving_and_computing():
    gpu = hardware.Gpu(1000, {"float32": 100})
    assert hardware.least_time_us(Cost(1_000_000_000, 1), "float32", gpu) == pytest.approx(1000)
    assert hardware.least_time_us(Cost(1, 10**12), "float32", gpu) == pytest.approx(10_000)
