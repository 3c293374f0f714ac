"""Appends of one producer that are under way together: they are taken in in the order of the calls, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bookledger.errors import LedgerError, MetadataUnavailable, OutOfOrderSequence
from ledgers import LedgerClient as BlockingClient
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from ledgers.logs.producers.producer_state_manager import ProducerStateManager
from ledgers.logs.writing.log_writer import LogWriter

SEQUENCES = range(1, 6)


class Noting:
    """The noting of a log's first producer, which waits, and then succeeds or fails."""

    def __init__(self, writer: LogWriter, error: LedgerError | None = None) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self._begin, self._error = writer.producers.begin, error
        writer.producers.begin = self._waiting  # type: ignore[method-assign]

    async def _waiting(self, confirmed_end: int) -> None:
        self.begun.set()
        await self.go_on.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error
        await self._begin(confirmed_end)


def in_flight(writer: LogWriter, producer: str = "a") -> list[asyncio.Task[int]]:
    return [asyncio.create_task(writer.append(b"%d" % n, producer=producer, sequence=n)) for n in SEQUENCES]


async def outcomes(appends: list[asyncio.Task[int]]) -> list[object]:
    found = await asyncio.gather(*appends, return_exceptions=True)
    return [one if isinstance(one, int) else type(one) for one in found]


@asynccontextmanager
async def appending_again(log: Log, writer: LogWriter) -> AsyncIterator[None]:
    """What is appended again in its order behind the block has the positions in its order."""
    yield
    assert await outcomes(in_flight(writer)) == await outcomes(in_flight(writer))
    await writer.close()
    of_a = [one.sequence async for one in log.read() if one.producer == "a"]
    assert of_a == list(SEQUENCES)
    assert writer.producers.waiting._calls == {}


async def test_where_the_first_append_fails_before_it_is_taken_in_so_do_those_behind_it(log: Log) -> None:
    writer = await log.writer()
    noting = Noting(writer, MetadataUnavailable("no answer"))
    async with appending_again(log, writer):
        appends, others = in_flight(writer), in_flight(writer, "b")
        await noting.begun.wait()
        noting.go_on.set()
        assert await outcomes(appends) == [MetadataUnavailable] * 5
        assert await outcomes(others) == [0, 1, 2, 3, 4]


async def test_where_an_append_is_cancelled_while_it_waits_those_behind_it_fail(
    client: LedgerClient,
) -> None:
    for cancelled in (0, 2):
        log = await client.create_log(f"orders{cancelled}")
        writer = await log.writer()
        noting = Noting(writer)
        appends = in_flight(writer)
        await noting.begun.wait()
        appends[cancelled].cancel()
        noting.go_on.set()
        found = await outcomes(appends)
        assert found[cancelled:] == [asyncio.CancelledError, *[OutOfOrderSequence] * (4 - cancelled)]
        assert all(isinstance(one, int) for one in found[:cancelled])
        async with appending_again(log, writer):
            pass


async def test_a_call_made_once_the_failure_is_known_is_taken_in(log: Log) -> None:
    """Its producer leaves the sequence out that failed."""
    async with await log.writer() as writer:
        noting = Noting(writer, MetadataUnavailable("no answer"))
        noting.go_on.set()
        assert await outcomes(in_flight(writer)) == [MetadataUnavailable] * 5
        assert await writer.append(b"6", producer="a", sequence=6) == 0


def test_over_threads_appends_are_taken_in_in_the_order_of_the_calls(uri: str) -> None:
    with BlockingClient(uri) as client, client.log("orders", create=True).writer() as writer:
        is_begun, go_on = threading.Event(), threading.Event()
        begin, failures = ProducerStateManager.begin, [MetadataUnavailable("no answer"), None]

        async def waiting(self: ProducerStateManager, confirmed_end: int) -> None:
            is_begun.set()
            await asyncio.to_thread(go_on.wait)
            failure = failures.pop(0)
            if failure is not None:
                raise failure
            await begin(self, confirmed_end)

        writer._twin.producers.begin = waiting.__get__(writer._twin.producers)  # type: ignore[method-assign]
        for expected in ([MetadataUnavailable] * 5, [0, 1, 2, 3, 4]):
            is_begun.clear()
            go_on.clear()
            found: list[object] = [None] * 5
            threads = []
            for n in SEQUENCES:
                threads.append(threading.Thread(target=noted, args=(found, n, writer.append)))
                threads[-1].start()
                until_waiting(lambda n=n: len(writer._waiting._calls.get("a", ())) == n)  # type: ignore[misc]
            assert is_begun.wait(60)
            go_on.set()
            for thread in threads:
                thread.join(60)
            assert found == expected
        assert writer._waiting._calls == {}


def noted(found: list[object], n: int, append: Callable[..., int]) -> None:
    try:
        found[n - 1] = append(b"%d" % n, producer="a", sequence=n)
    except LedgerError as error:
        found[n - 1] = type(error)


def until_waiting(is_so: Callable[[], bool]) -> None:
    while not is_so():
        threading.Event().wait(0.001)
