"""Asking how far an open ledger is confirmed: one answer, a quorum of them, or news when there is any."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from bookie.wire import NO_ENTRY, LacReply, LacRequest, Status
from ledgers.config import ClientConfig
from ledgers.errors import BookieUnavailable, LedgerError
from ledgers.reading import lac_read
from ledgers.reading.read_handle import ReadHandle
from metadata.records.ledger_record import BookieRef, Fragment, Shape
from tests.ledgers.reading.reading import BK0, BK1, BK2, BK3, DIGEST, DictionaryBookies, reader_of, record_of

Teller = Callable[[LacRequest], Awaitable[LacReply]]


@dataclass
class TellingBookies(DictionaryBookies):
    """What each bookie says of the last confirmed entry."""

    tell: dict[BookieRef, Teller] = field(default_factory=dict)
    questions: int = 0

    async def last_add_confirmed(self, bookie: BookieRef, request: LacRequest) -> LacReply:
        self.questions += 1
        return await self.tell[bookie](request)


def knows(last_entry: int) -> Teller:
    async def tell(_: LacRequest) -> LacReply:
        return LacReply(Status.OK, DIGEST.sign_lac(last_entry, 10 * last_entry))

    return tell


async def knows_nothing(_: LacRequest) -> LacReply:
    return LacReply(Status.NO_SUCH_LEDGER)


async def forges(_: LacRequest) -> LacReply:
    return LacReply(Status.OK, DIGEST.sign_lac(3, 30)._replace(last_entry=99))


async def is_down(_: LacRequest) -> LacReply:
    raise BookieUnavailable("b", "timeout")


async def is_silent(_: LacRequest) -> LacReply:
    await asyncio.Event().wait()
    raise AssertionError


async def loses_its_connection(_: LacRequest) -> LacReply:
    raise asyncio.CancelledError


async def follower_of(
    *tellers: Teller, config: ClientConfig | None = None
) -> tuple[ReadHandle, TellingBookies]:
    ensemble = (BK0, BK1, BK2, BK3)[: len(tellers)]
    bookies = TellingBookies([10] * 9, tell=dict(zip(ensemble, tellers, strict=True)))
    record = record_of(bookies, Fragment(0, ensemble), shape=Shape(len(tellers), 3, 2), closed=False)
    reader, _ = await reader_of(bookies, record, config)
    reader._view.last_add_confirmed = NO_ENTRY
    return reader, bookies


async def test_one_good_answer_is_enough_to_try() -> None:
    reader, _ = await follower_of(is_down, is_silent, knows(5))
    assert await reader.try_read_last_add_confirmed() == 5
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_so_many_answers_are_awaited_that_no_ack_quorum_is_outside() -> None:
    reader, _ = await follower_of(knows(5), is_silent, knows(8))
    assert await reader.read_last_add_confirmed() == 8
    striped, _ = await follower_of(knows(5), knows_nothing, is_down, knows(7))
    assert await striped.read_last_add_confirmed() == 7
    lonely, _ = await follower_of(knows(5), is_down, is_down)
    with pytest.raises(LedgerError, match="too few bookies"):
        await lonely.read_last_add_confirmed()


async def test_a_bookie_that_has_heard_nothing_is_no_answer_before_the_others_had_their_say() -> None:
    """It may have joined after all entries."""

    async def after_the_others(request: LacRequest) -> LacReply:
        for _ in range(10):
            await asyncio.sleep(0)
        return await knows(5)(request)

    for ask in (ReadHandle.try_read_last_add_confirmed, ReadHandle.read_last_add_confirmed):
        reader, _ = await follower_of(knows_nothing, knows_nothing, after_the_others)
        assert await ask(reader) == 5
        fresh, _ = await follower_of(knows_nothing, is_down, knows_nothing)
        assert await ask(fresh) == NO_ENTRY


async def test_a_statement_with_a_wrong_digest_tells_nothing() -> None:
    reader, _ = await follower_of(forges, knows(5), knows(4))
    assert await reader.read_last_add_confirmed() == 5
    deceived, _ = await follower_of(*[forges] * 3)
    with pytest.raises(LedgerError, match="wrong digest"):
        await deceived.try_read_last_add_confirmed()
    assert deceived.last_add_confirmed == NO_ENTRY


async def test_what_a_reader_knows_to_be_confirmed_never_goes_back() -> None:
    reader, bookies = await follower_of(knows(5), knows(5), knows(5))
    assert await reader.read_last_add_confirmed() == 5
    bookies.tell = dict.fromkeys(bookies.tell, knows(3))
    assert await reader.read_last_add_confirmed() == 5


async def test_a_call_that_a_closing_connection_cancelled_tells_nothing_and_cancels_no_reader() -> None:
    reader, _ = await follower_of(loses_its_connection, knows(5), knows(5))
    assert await reader.read_last_add_confirmed() == 5
    cut_off, _ = await follower_of(*[loses_its_connection] * 3)
    with pytest.raises(LedgerError, match="the connection was closed"):
        await cut_off.try_read_last_add_confirmed()


async def test_bookies_that_fail_at_once_are_not_asked_for_news_in_a_tight_loop() -> None:
    reader, bookies = await follower_of(*[is_down] * 3, config=ClientConfig(retry_replacement_seconds=30))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await lac_read.wait_for_news(reader._view)
    assert bookies.questions == 3


async def test_after_a_long_poll_without_news_the_next_question_is_asked_at_once() -> None:
    async def waits(_: LacRequest) -> LacReply:
        await asyncio.sleep(0.1)
        return LacReply(Status.OK)

    reader, _ = await follower_of(*[waits] * 3, config=ClientConfig(retry_replacement_seconds=0.1))
    clock = asyncio.get_running_loop().time
    began = clock()
    await lac_read.wait_for_news(reader._view)
    assert clock() - began < 0.19
