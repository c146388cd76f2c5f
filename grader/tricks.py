"""What the rounds of a duel show of work that was done outside the clock, or otherwise than it was recorded. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from .reply import CallReply
from .timing import Duel, Player

# Reading the outputs takes as long for the submission as for the baseline. What goes beyond is work that was put off;
# all of a round's work would be 9 ms.
LATE_FACTOR = 1.25
LATE_FIXED_S = 0.001
# A share of rounds this large that were late, or found the device busy, is no accident.
ODD_SHARE = 0.1
# Recording a round takes 0.2 to 0.4 ms on an H200's host for the first operator, then up to 40 µs for each operator and
# launch, while the device waits where its work takes less. More than a few notes a call are no reason for more time.
RECORDED_FACTOR = 1.25
RECORDED_FIXED_S = 0.001
RECORDED_NOTE_S = 60e-6
MOST_NOTES = 8
REFILL_FACTOR = 1.25
REFILL_FIXED_S = 0.001


@dataclass(frozen=True)
class Recording:
    """Rounds whose operators and launches were noted: the seconds of a call, and how many notes one makes."""

    seconds: float
    notes: float

    @classmethod
    def of(cls, player: Player, last: CallReply) -> Recording:
        """What a player's recorded rounds took, with what was noted in the last."""
        notes = last.record.launch_count + sum(operator.calls for operator in last.operators)
        return cls(median(player.seconds), notes / player.calls)

    def is_slow(self, player: Player) -> bool:
        """Whether a call took longer than in the player's other rounds."""
        return self.seconds > RECORDED_FACTOR * median(player.seconds) + RECORDED_FIXED_S / player.calls

    def explains_itself(self) -> bool:
        """Whether taking the notes may have taken all the time."""
        return self.seconds <= RECORDED_NOTE_S * min(self.notes, MOST_NOTES)


def trick(duel: Duel, recording: Recording) -> str | None:
    """What shows that work was done outside the clock, or otherwise than it was recorded, or None."""
    baseline, submission = duel.baseline, duel.submission
    if recording.is_slow(submission) and not recording.explains_itself():
        return (f"a call took {recording.seconds * 1e6:.0f} µs while its operators were recorded, "
                f"{median(submission.seconds) * 1e6:.0f} otherwise")  # fmt: skip
    tolerated = max(1, int(ODD_SHARE * len(submission.seconds)))
    # What happens to the baseline as often is the host's doing.
    if (late := _late_rounds(duel, submission)) > tolerated + _late_rounds(duel, baseline):
        usual_us = 1e6 * median(baseline.fetch_seconds)
        most_us = 1e6 * _fetch_limit_s(duel, submission)
        return (
            f"in {late} of {len(submission.fetch_seconds)} rounds each result took over {most_us:.0f} µs to read, the "
            f"baseline's {usual_us:.0f}: work was put off"
        )
    if submission.busy_rounds > tolerated + baseline.busy_rounds:
        return f"in {submission.busy_rounds} rounds the device worked while the submission stood still"
    refill_s, usual_refill_s = (median(p.refill_seconds) for p in (submission, baseline))
    if refill_s > REFILL_FACTOR * usual_refill_s + REFILL_FIXED_S / submission.calls:
        return f"the device worked while its inputs were made ({refill_s * 1e6:.0f} µs for {usual_refill_s * 1e6:.0f})"
    return None


def suspicions(duel: Duel, recording: Recording, time_us: float, least_us: float) -> dict[str, Any]:
    """What proves nothing, since clocks and data sheets are a little off, but is worth a look."""
    facts: dict[str, Any] = {}
    if time_us < least_us:
        facts["under_the_limit"] = {"time_us": time_us, "least_us": least_us}
    if recording.is_slow(duel.submission):
        facts["slower while recorded"] = {"recorded_us": recording.seconds * 1e6, "time_us": time_us,
                                          "operators_and_launches": recording.notes}  # fmt: skip
    if late := _late_rounds(duel, duel.submission):
        facts["late_rounds"] = late
    if duel.submission.busy_rounds:
        facts["busy_rounds"] = duel.submission.busy_rounds
    return facts


def _fetch_limit_s(duel: Duel, player: Player) -> float:
    """How long reading one output of a player may take."""
    return LATE_FACTOR * median(duel.baseline.fetch_seconds) + LATE_FIXED_S / player.calls


def _late_rounds(duel: Duel, player: Player) -> int:
    limit_s = _fetch_limit_s(duel, player)
    return sum(seconds > limit_s for seconds in player.fetch_seconds)
