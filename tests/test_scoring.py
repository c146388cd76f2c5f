"""Scoring as properties: bounded, complete, monotone, free of order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grader.scoring import ItemScore, Totals, item_maximum, score, total
from grader.verdict import Status

weights = st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 100), min_size=1)
statuses = st.sampled_from(list(Status))


@given(st.floats(0.01, 1000), weights, st.integers(1, 5))
def test_the_maxima_add_up_to_the_exercise(points, of_checks, items):
    whole = sum(items * item_maximum(points, of_checks, check, items) for check in of_checks)
    assert abs(whole - points) <= 1e-9 * points


@given(st.floats(0.01, 1000), weights, st.integers(1, 5))
def test_checks_share_by_weight(points, of_checks, items):
    for check, weight in of_checks.items():
        share = items * item_maximum(points, of_checks, check, items)
        assert abs(share - points * weight / sum(of_checks.values())) <= 1e-9 * points


@given(statuses, st.floats(0, 100), st.floats(-2, 3))
def test_an_item_earns_between_nothing_and_its_maximum(status, maximum, credit):
    scored = score(status, maximum, credit)
    assert 0 <= scored.points <= scored.max_points == maximum
    if status is not Status.PASSED:
        assert scored.points == 0


def test_only_what_could_not_be_judged_is_not_gradable():
    assert {s for s in Status if not score(s, 1).gradable} == {Status.NOT_MEASURED, Status.INFRASTRUCTURE_ERROR}


@given(st.lists(st.builds(score, statuses, st.floats(0, 100))), st.randoms())
def test_totals_are_bounded_and_free_of_order(items, random):
    totals = total(items)
    assert 0 <= totals.earned <= totals.gradable + 1e-9 <= totals.maximum + 2e-9
    shuffled = list(items)
    random.shuffle(shuffled)
    again = total(shuffled)
    assert abs(again.earned - totals.earned) <= 1e-9 * (1 + totals.maximum)


@given(st.lists(st.builds(score, statuses, st.floats(0, 100))), st.floats(0, 10))
def test_passing_one_more_item_never_lowers_the_total(items, maximum):
    better = total([*items, score(Status.PASSED, maximum)])
    worse = total([*items, score(Status.WRONG_VALUES, maximum)])
    assert better.earned >= worse.earned
    assert better.gradable == worse.gradable


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 100))
def test_more_credit_never_earns_less(a, b, maximum):
    low, high = sorted((a, b))
    assert score(Status.PASSED, maximum, low).points <= score(Status.PASSED, maximum, high).points


def test_no_items_make_no_points():
    assert total([]) == total([ItemScore(0, 0, gradable=True)])


def test_thirds_add_up_to_whole_points():
    checks = {"ragged": 3, "rest": 8}
    third, rest = (item_maximum(30, checks, check, items) for check, items in (("ragged", 3), ("rest", 1)))
    found = total([ItemScore(third, third, gradable=True)] * 3 + [ItemScore(rest, rest, gradable=True)])
    assert found == Totals(30.0, 30.0, 30.0)
