"""A store that does not answer is told of once, seldom again, and at its end; other errors are answers."""

from __future__ import annotations

import logging
import time

import pytest

from metadata.counting.counting_store import CountingStore
from metadata.counting.outage import Outage, weight
from metadata.errors import KeyExists, StoreRefused, StoreUnavailable
from tests.support.faulty_store import FaultyStore


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    return at


def test_it_is_told_once_and_again_each_minute_and_at_its_end(
    now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    one = Outage()
    one.failed(StoreUnavailable("who starts waits for it, and says so"))
    one.answered()
    for _ in range(200):
        one.failed(StoreUnavailable("nobody there"))
        now[0] += 1.0
    one.answered()
    one.answered()
    assert [record.getMessage() for record in caplog.records] == [
        "the metadata store does not answer, will keep trying: nobody there",
        "the metadata store has not answered for 60 s, in 61 calls: nobody there",
        "the metadata store has not answered for 120 s, in 121 calls: nobody there",
        "the metadata store has not answered for 180 s, in 181 calls: nobody there",
        "the metadata store answers again, after 200.0 s",
    ]


def test_an_answer_that_is_no_is_an_answer(now: list[float], caplog: pytest.LogCaptureFixture) -> None:
    one = Outage()
    for error in (KeyExists("a"), StoreRefused("no")):
        one.failed(error)
        assert weight(error) == logging.WARNING
    assert not caplog.records and now == [100.0]
    assert weight(StoreUnavailable("away")) == logging.DEBUG, "the outage is told already"


async def test_a_counting_store_tells_of_its_outage_which_what_it_tells_of_its_members_does_not_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """etcd's health is told in an outage, too: of each member that it does not answer."""
    inner = FaultyStore()
    inner.fail(StoreUnavailable("away"), calls=["get"])
    store = CountingStore(inner)
    await store.list_page("x")
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await store.get("a")
        await store.health()
    inner.heal()
    await store.get("a")
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "the metadata store does not answer",
        "the metadata store answers again",
    ]


def test_a_call_that_was_made_before_the_store_answered_another_begins_no_outage(
    now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    one = Outage()
    one.answered()
    one.failed(StoreUnavailable("away"), asked_at=now[0] + 1)
    now[0] += 10
    one.answered()
    one.failed(StoreUnavailable("it was asked meanwhile"), asked_at=now[0] - 5)
    assert [record.getMessage() for record in caplog.records] == [
        "the metadata store does not answer, will keep trying: away",
        "the metadata store answers again, after 10.0 s",
    ]
