"""Which bookies are avoided, and for how long."""

from __future__ import annotations

from ledgers.config import ClientConfig
from ledgers.protocol.bookie_health import BookieFailureHistory
from metadata.records.ledger_record import BookieRef

ONE, TWO = BookieRef("b1", "i1"), BookieRef("b2", "i2")
CONFIG = ClientConfig(
    failed_bookie_seconds=30,
    quarantine_seconds=1800,
)


def after(*failures: float) -> BookieFailureHistory:
    health = BookieFailureHistory(CONFIG)
    for at in failures:
        health.failed(ONE, at)
    return health


def test_a_bookie_that_failed_is_avoided_for_a_while() -> None:
    health = after(100.0)
    assert health.avoided(129.0) == {ONE}
    assert health.avoided(130.5) == frozenset()


def test_a_bookie_that_keeps_failing_is_quarantined() -> None:
    health = after(100.0, 200.0, 300.0)
    assert health.avoided(2000.0) == {ONE}
    assert health.avoided(2100.5) == frozenset()


def test_failures_far_apart_are_not_held_together() -> None:
    assert after(100.0, 200.0, 450.0).avoided(500.0) == frozenset()


def test_one_broken_connection_is_one_failure_however_many_ledgers_notice() -> None:
    assert after(*(100.0 + n / 1000 for n in range(500))).avoided(200.0) == frozenset()


def test_one_bookies_failures_are_not_held_against_another() -> None:
    health = after(100.0, 200.0, 300.0)
    health.failed(TWO, 300.0)
    assert health.avoided(340.0) == {ONE}


def test_nothing_is_remembered_of_bookies_that_have_been_well_for_long() -> None:
    health = after(100.0)
    health.avoided(1000.0)
    assert health._failures == {}


def test_a_bookie_that_was_slow_is_avoided_for_a_while_and_by_readers_only() -> None:
    health = after(100.0)
    health.was_slow(TWO, 110.0)
    assert health.avoided_by_readers(129.0) == {ONE, TWO}
    assert health.avoided(129.0) == {ONE}
    assert health.avoided_by_readers(139.0) == {TWO}
    assert health.avoided_by_readers(141.0) == frozenset()


def test_those_to_avoid_are_told_as_what_they_are_said_to_be() -> None:
    health = after(0)
    health.was_slow(TWO, 0)
    for told in (
        health.avoided(1),
        health.avoided_by_readers(1),
        BookieFailureHistory(CONFIG).avoided_by_readers(1),
    ):
        assert type(told) is frozenset
    assert health.avoided_by_readers(1) == {ONE, TWO}
