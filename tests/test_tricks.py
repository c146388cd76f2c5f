"""What the rounds of a duel show of work outside the clock, and what slow hosts do to honest ones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from grader import tricks
from grader.reply import parse_reply


@pytest.mark.parametrize(
    ("time_us", "fetches", "busy", "recorded_us", "facts"),
    [
        (70.0, [1e-3] * 3, 0, 75.0, set()),
        (62.0, [1e-3] * 3, 0, 75.0, {"under_the_limit"}),
        (70.0, [1e-3, 9e-3, 1e-3], 0, 75.0, {"late_rounds"}),
        (70.0, [1e-3] * 3, 1, 75.0, {"busy_rounds"}),
        (70.0, [1e-3] * 3, 0, 170.0, {"slower while recorded"}),
    ],
)
def test_what_proves_nothing_about_a_timing_is_kept_for_staff(time_us, fetches, busy, recorded_us, facts):
    baseline = SimpleNamespace(fetch_seconds=[1e-3] * 3, busy_rounds=0, calls=120)
    submission = SimpleNamespace(fetch_seconds=fetches, busy_rounds=busy, calls=120, seconds=[time_us * 1e-6] * 3)
    duel = SimpleNamespace(baseline=baseline, submission=submission)
    assert set(tricks.suspicions(duel, tricks.Recording(recorded_us * 1e-6, 4.0), time_us, least_us=64.0)) == facts


def duel_of_facts(late: int = 0, baseline_late: int = 0, busy: int = 0, baseline_busy: int = 0) -> SimpleNamespace:
    """A duel of 24 rounds, in so many of which something came between."""
    players = (
        SimpleNamespace(fetch_seconds=[9e-3] * rounds + [75e-6] * (24 - rounds), busy_rounds=busy_rounds,
                        refill_seconds=[75e-6] * 24, seconds=[70e-6] * 24, calls=120)
        for rounds, busy_rounds in ((baseline_late, baseline_busy), (late, busy))
    )  # fmt: skip
    return SimpleNamespace(**dict(zip(("baseline", "submission"), players, strict=True)))


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"late": 2, "busy": 2}, None),
        ({"late": 3}, "in 3 of 24 rounds each result took over"),
        ({"late": 4, "baseline_late": 2}, None),  # the host's doing
        ({"late": 24, "baseline_late": 2}, "in 24 of 24 rounds each result took over"),
        ({"busy": 3}, "in 3 rounds the device worked while the submission stood still"),
        ({"busy": 4, "baseline_busy": 2}, None),
    ],
    ids=str,
)
def test_odd_rounds_tell_on_a_submission_where_it_has_more_of_them_than_the_baseline(facts, says):
    trick = tricks.trick(duel_of_facts(**facts), tricks.Recording(70e-6, 2.0))
    assert (trick is None) if says is None else (trick is not None and trick.startswith(says)), trick


@pytest.mark.parametrize(
    ("recorded_us", "notes", "told"),
    [
        (75.0, 2.0, False),
        (90.0, 0.0, False),
        (110.0, 0.0, True),
        (174.0, 4.0, False),  # three operators and a launch, as a slow host took for them
        (250.0, 4.0, True),
        (470.0, 500.0, False),
        (500.0, 500.0, True),  # so many operators are called for the sake of the notes
    ],
)
def test_a_submission_that_is_slower_while_it_is_recorded_gets_no_points_unless_the_notes_took_the_time(
    recorded_us, notes, told
):
    trick = tricks.trick(duel_of_facts(), tricks.Recording(recorded_us * 1e-6, notes))
    assert (trick is not None) == told
    assert trick is None or f"{recorded_us:.0f} µs while its operators were recorded, 70 otherwise" in trick


def test_notes_of_a_round_are_counted_by_the_call():
    reply = parse_reply({
        "outputs": [], "allocated_bytes": 0, "largest_allocated": [], "threads": 1,
        "record": {"launches": [], "launch_count": 120, "bytes_loaded": 0, "bytes_stored": 0, "faults": [],
                   "warnings": [], "unsupported": None},
        "operators": [{"name": "view", "calls": 240, "elements": 4, "bytes_touched": 8},
                      {"name": "empty", "calls": 120, "elements": 4, "bytes_touched": 8}],
    })  # fmt: skip
    player = SimpleNamespace(seconds=[80e-6, 90e-6, 85e-6], calls=120)
    assert tricks.Recording.of(player, reply) == tricks.Recording(85e-6, 4.0)
