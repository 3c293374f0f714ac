"""Appending: what is sent where, and when an entry is confirmed.

W1: entry i goes to positions (i mod E) to (i+Qw-1 mod E), and E >= Qw >= Qa >= 1.
W2: entries are confirmed in order, the LAC never goes back, and only acks over a current lane count.
W5: a refusal ends the writer, any other error is a failed bookie; several are replaced in one change.
"""

from __future__ import annotations

import pytest

from ledgers.errors import LedgerError, LedgerFenced, MetadataUnavailable, NotEnoughBookies, Unauthorized
from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import (
    CloseLane,
    Confirm,
    FindReplacements,
    Finish,
    OpenLane,
    RetryLater,
    Send,
)
from metadata.records.ledger_record import Shape

from .ledger7 import (
    BK0,
    BK1,
    BK2,
    BK3,
    BK4,
    BK5,
    LEDGER,
    asks_for,
    entries,
    failure,
    proposed,
    record,
    writer,
)


def test_a_writer_begins_with_a_lane_to_each_bookie_of_its_ensemble() -> None:
    assert AppendPipeline(record((3, 3, 2))).start() == [OpenLane(1, BK0), OpenLane(2, BK1), OpenLane(3, BK2)]


def test_W1_every_bookie_gets_every_entry_when_the_ledger_is_not_striped() -> None:
    batch = entries(0, 1, 2)
    assert writer((3, 3, 2)).append(batch) == [Send(1, batch), Send(2, batch), Send(3, batch)]


def test_W1_each_entry_of_a_striped_ledger_goes_to_its_write_set_only() -> None:
    """Entry i goes to positions (i mod E) … (i+Qw−1 mod E)."""
    assert writer((5, 3, 2)).append(entries(0, 1, 2, 3, 4, 5, 6)) == [
        Send(1, entries(0, 3, 4, 5)),
        Send(2, entries(0, 1, 4, 5, 6)),
        Send(3, entries(0, 1, 2, 5, 6)),
        Send(4, entries(1, 2, 3, 6)),
        Send(5, entries(2, 3, 4)),
    ]


@pytest.mark.parametrize(
    ("sizes", "fits"),
    [
        ((3, 3, 2), True),
        ((32, 32, 32), True),
        ((1, 1, 1), True),
        ((2, 3, 2), False),
        ((3, 2, 3), False),
        ((3, 3, 0), False),
        ((33, 3, 2), False),
    ],
)
def test_W1_a_shape_is_ensemble_over_write_quorum_over_ack_quorum(
    sizes: tuple[int, int, int], fits: bool
) -> None:
    if fits:
        assert str(Shape(*sizes)) == "/".join(map(str, sizes))
    else:
        with pytest.raises(ValueError, match="do not fit"):
            Shape(*sizes)


def test_W2_an_entry_is_confirmed_when_an_ack_quorum_has_it() -> None:
    pipeline = writer((3, 3, 2), appended=1)
    assert pipeline.acked(1, 0) == []
    assert pipeline.acked(3, 0) == [Confirm(0)]
    assert pipeline.acked(2, 0) == []


def test_W2_an_entry_waits_for_the_entry_before_it() -> None:
    """Strictly in entry order, whichever write set is first."""
    pipeline = writer((4, 2, 2), appended=3)
    assert pipeline.acked(3, 2) == []
    assert pipeline.acked(4, 2) == []  # entry 2 is complete
    assert pipeline.acked(2, 1) == []  # entry 1 too
    assert pipeline.acked(1, 0) == [Confirm(2)]


def test_W2_one_bookies_ack_said_twice_counts_once() -> None:
    pipeline = writer((3, 3, 2), appended=2)
    assert pipeline.acked(1, 1) + pipeline.acked(1, 1) + pipeline.acked(1, 0) == []
    assert pipeline.last_add_confirmed == -1
    assert pipeline.acked(2, 1) == [Confirm(1)]


def test_W2_the_lac_never_goes_back() -> None:
    """Older acks that come late change nothing."""
    pipeline = writer((3, 3, 2), appended=6)
    pipeline.acked(1, 5)
    assert pipeline.acked(2, 4) == [Confirm(4)]
    assert pipeline.acked(3, 2) == []
    assert pipeline.last_add_confirmed == 4


def test_W2_a_late_ack_of_a_replaced_bookie_counts_for_nothing() -> None:
    """W2, F9: e9 to {BK0,BK1,BK2}; slow BK0 is replaced by BK3 at 9; then BK0's ack arrives."""
    pipeline = writer((3, 3, 2), appended=10, confirmed=9)
    pipeline.lane_failed(1, "slow")
    pipeline.replacements({0: BK3}, {})
    pipeline.changed(record((3, 3, 2), (0, (BK0, BK1, BK2)), (9, (BK3, BK1, BK2))))
    assert pipeline.acked(1, 9) == []
    assert pipeline.acked(2, 9) == []
    assert pipeline.acked(4, 9) == [Confirm(9)]


@pytest.mark.parametrize("error", [LedgerFenced(LEDGER, "b1"), Unauthorized(LEDGER)])
def test_W5_a_refusal_of_one_bookie_ends_the_writer(error: LedgerFenced | Unauthorized) -> None:
    """And names the first entry that is not confirmed."""
    pipeline = writer((3, 3, 2), appended=5, confirmed=3)
    assert pipeline.refused(2, error) == [CloseLane(1), CloseLane(2), CloseLane(3), Finish(error)]
    assert error.first_unconfirmed == 3
    assert pipeline.acked(1, 4) + pipeline.acked(3, 4) == []
    assert pipeline.last_add_confirmed == 2


def test_W5_a_refusal_of_a_replaced_bookie_is_no_longer_heard() -> None:
    """It is in no write set any more; a fence that matters shows in the metadata."""
    pipeline = writer((3, 3, 2))
    pipeline.lane_failed(1, "gone")
    assert pipeline.refused(1, LedgerFenced(LEDGER, "b0")) == []


def test_W5_any_other_failure_asks_for_a_replacement() -> None:
    pipeline = writer((3, 3, 2), appended=1)
    assert pipeline.lane_failed(2, "i/o error") == [
        CloseLane(2),
        asks_for((BK0, BK1, BK2), p1="i/o error"),
    ]


def test_W5_a_failure_that_many_entries_report_is_one_failure() -> None:
    pipeline = writer((3, 3, 2), appended=4)
    assert len(pipeline.lane_failed(2, "gone")) == 2
    assert pipeline.lane_failed(2, "gone") == []


def test_W5_failures_that_come_together_make_one_change() -> None:
    pipeline = writer((5, 3, 2), appended=2)
    pipeline.lane_failed(1, "gone")
    pipeline.replacements({}, {})
    pipeline.lane_failed(2, "gone too")
    asked = proposed(pipeline.replacements({0: BK5}, {}))
    assert asked.fragments[-1].ensemble == (BK5, BK1, BK2, BK3, BK4)
    pipeline = writer((3, 3, 2), appended=2)
    pipeline.lane_failed(1, "gone")
    pipeline.lane_failed(2, "gone too")
    assert pipeline.replacements({}, {}) == [
        RetryLater(),
        FindReplacements((BK0, BK1, BK2), {0: "gone", 1: "gone too"}),
    ]
    asked = proposed(pipeline.replacements({0: BK3, 1: BK4}, {}))
    assert asked == record((3, 3, 2), (0, (BK3, BK4, BK2)))
    assert pipeline.changed(asked) == [
        OpenLane(4, BK3),
        OpenLane(5, BK4),
        Send(4, entries(0, 1)),
        Send(5, entries(0, 1)),
    ]


def test_writing_goes_on_without_a_bookie_while_every_write_set_keeps_an_ack_quorum() -> None:
    """Degraded writing: there is no fourth bookie."""
    pipeline = writer((3, 3, 2), appended=1)
    pipeline.lane_failed(3, "gone")
    assert pipeline.replacements({}, {"b9": "is read-only"}) == [RetryLater()]
    assert pipeline.append(entries(1)) == [Send(1, entries(1)), Send(2, entries(1))]
    pipeline.acked(1, 1)
    assert pipeline.acked(2, 1) == [Confirm(1)]


def test_a_bookie_that_is_back_takes_its_own_place_without_a_change_of_metadata() -> None:
    """It is named there already, so its new acks count at once; its old ones were withdrawn."""
    pipeline = writer((3, 3, 2), appended=4, confirmed=2)
    pipeline.acked(3, 2)
    pipeline.lane_failed(3, "restarting")
    pipeline.replacements({}, {})
    assert pipeline.retry_replacements() == [asks_for((BK0, BK1, BK2), p2="restarting")]
    assert pipeline.replacements({2: BK2}, {}) == [OpenLane(4, BK2), Send(4, entries(2, 3))]
    assert pipeline.acked(1, 3) == []
    assert pipeline.acked(4, 2) == [Confirm(2)]
    assert pipeline.record == record((3, 3, 2))


def test_a_returned_bookie_that_fails_again_at_once_is_not_tried_again_in_a_tight_loop() -> None:
    """A full disk answers every sign of life and refuses every append."""
    pipeline = writer((3, 3, 2), appended=1)
    pipeline.lane_failed(3, "read-only")
    pipeline.replacements({2: BK2}, {})
    assert pipeline.lane_failed(4, "read-only") == [CloseLane(4), RetryLater()]
    assert pipeline.retry_replacements() == [asks_for((BK0, BK1, BK2), p2="read-only")]


def test_a_returned_bookie_that_has_worked_since_is_replaced_at_once_when_it_fails() -> None:
    pipeline = writer((3, 3, 2), appended=1)
    pipeline.lane_failed(3, "restarting")
    pipeline.replacements({2: BK2}, {})
    pipeline.acked(4, 0)
    assert pipeline.lane_failed(4, "gone") == [CloseLane(4), asks_for((BK0, BK1, BK2), p2="gone")]


def test_a_writer_that_lost_its_ack_quorum_goes_on_looking_until_it_gives_up() -> None:
    """With every bookie named that could not be used."""
    pipeline = writer((3, 3, 2), appended=1)
    pipeline.lane_failed(1, "gone")
    pipeline.lane_failed(2, "on fire")
    pipeline.replacements({}, {})
    assert pipeline.is_without_quorum
    assert pipeline.replacements({}, {"b9": "is read-only"}) == []
    assert pipeline.retry_replacements() == [asks_for((BK0, BK1, BK2), p0="gone", p1="on fire")]
    assert pipeline.replacements({}, {"b9": "is read-only"}) == [RetryLater()]
    effects = pipeline.give_up()
    error = failure(effects)
    assert isinstance(error, NotEnoughBookies)
    assert effects == [CloseLane(3), Finish(error)]
    assert error.reasons == {"b0": "gone", "b1": "on fire", "b9": "is read-only"}
    assert error.first_unconfirmed == 0


def test_a_writer_that_lost_its_ack_quorum_goes_on_when_a_bookie_is_back_in_its_own_place() -> None:
    """Restarted, of the same incarnation, it is as good as before: no change of metadata."""
    pipeline = writer((3, 3, 2), appended=1)
    pipeline.lane_failed(1, "restarting")
    pipeline.lane_failed(2, "restarting")
    pipeline.replacements({}, {})
    pipeline.replacements({}, {})
    pipeline.retry_replacements()
    effects = pipeline.replacements({0: BK0}, {})
    assert OpenLane(4, BK0) in effects
    assert not pipeline.is_without_quorum
    assert pipeline.give_up() == []
    assert pipeline.acked(3, 0) == []
    assert Confirm(0) in pipeline.acked(4, 0)


def test_nothing_is_confirmed_after_the_writer_gave_up() -> None:
    pipeline = writer((3, 3, 2), appended=1)
    error = MetadataUnavailable("silent")
    assert pipeline.fail(error) == [CloseLane(1), CloseLane(2), CloseLane(3), Finish(error)]
    assert pipeline.fail(LedgerError("again")) == []
    assert pipeline.acked(1, 0) + pipeline.acked(2, 0) == []


def test_lengths_follow_what_is_confirmed() -> None:
    pipeline = writer((3, 3, 2), appended=6, confirmed=1)
    pipeline.acked(1, 3)
    pipeline.acked(2, 3)
    assert (pipeline.confirmed_length, pipeline.last_add_pushed) == (8, 5)
