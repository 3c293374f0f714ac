"""Scans: page after page of whole frames, as far as the client takes them, and no further."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from bookie.serving.data import call_handler as module
from bookie.serving.data.call_handler import NOT_TAKEN, UNTAKEN_SECONDS_MAX
from bookie.wire import codec
from bookie.wire.data.framing import FrameKind
from bookie.wire.messages import BytesTaken, InfoRequest, ReadReply, ScanRequest, Status
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import Client, served
from tests.bookie.serving.test_limits import told, until_held, with_limits
from tests.support.present import there
from tests.support.raw_data import RawConnection

FRAMES, ENTRIES, PAYLOAD_BYTES = 12, 10, 1000
FRAME_BYTES = ENTRIES * (PAYLOAD_BYTES + 16)
LAST = FRAMES * ENTRIES - 1
NO_LIMIT = 2**40
SCAN = 7


async def write(client: Client, ledger_id: int = 7) -> None:
    """Frames of ten entries, each in a message of its own."""
    for first in range(0, LAST, ENTRIES):
        ids = list(range(first, first + ENTRIES))
        [ack] = await client.append(client.request(0, frame_of(ledger_id, ids, payload_bytes=PAYLOAD_BYTES)))
        assert ack.status is Status.OK


@asynccontextmanager
async def scanning(
    client: Client, first: int = 0, last: int = LAST, *, page_bytes: int = 1, window_bytes: int = NO_LIMIT
) -> AsyncIterator[RawConnection]:
    async with client.stream() as stream:
        request = ScanRequest(client.incarnation, 7, first, last, page_bytes, window_bytes)
        stream.send(FrameKind.SCAN, SCAN, codec.encode(request))
        yield stream


async def page(stream: RawConnection) -> tuple[ReadReply, int]:
    answer = await stream.receive()
    assert answer is not None and (answer.kind, answer.call) == (FrameKind.SCAN, SCAN), answer
    return codec.decode(ReadReply, answer.body), len(answer.body)


async def is_silent(client: Client, stream: RawConnection) -> bool:
    """Whether another call is answered, and nothing else."""
    stream.send(FrameKind.INFO, 9, codec.encode(InfoRequest()))
    answer = await stream.receive()
    return answer is not None and (answer.kind, answer.call) == (FrameKind.INFO, 9)


async def test_a_scan_gives_every_entry_once_a_frame_to_a_page(client: Client) -> None:
    await write(client)
    async with scanning(client) as stream:
        for n in range(FRAMES):
            reply, _ = await page(stream)
            assert reply.status is Status.OK and not reply.damaged
            assert list(reply.columns.ids) == list(range(n * ENTRIES, (n + 1) * ENTRIES))
        assert await is_silent(client, stream), "the last page ends it"


@pytest.mark.parametrize("page_bytes", [1, FRAME_BYTES, 3 * FRAME_BYTES, 5 * FRAME_BYTES // 2])
async def test_pages_end_with_a_frame_and_are_as_large_as_was_asked(client: Client, page_bytes: int) -> None:
    await write(client)
    next_entry = 3
    async with scanning(client, 3, LAST - 3, page_bytes=page_bytes) as stream:
        while next_entry <= LAST - 3:
            reply, _ = await page(stream)
            ids = list(reply.columns.ids)
            assert ids == list(range(next_entry, ids[-1] + 1))
            assert ids[-1] == LAST - 3 or ids[-1] % ENTRIES == ENTRIES - 1
            # A record has some bytes besides: of frames that fill a page just so, one less may fit.
            assert len(ids) <= max(ENTRIES, page_bytes // FRAME_BYTES * ENTRIES)
            next_entry = ids[-1] + 1


async def test_what_is_not_taken_is_never_more_than_the_window(client: Client) -> None:
    await write(client)
    window = 3 * FRAME_BYTES + 600
    async with scanning(client, page_bytes=FRAME_BYTES, window_bytes=window) as stream:
        sizes = [(await page(stream))[1] for _ in range(3)]
        assert sum(sizes) <= window
        assert await is_silent(client, stream), "the window is full"
        stream.send(FrameKind.TAKEN, SCAN, codec.encode(BytesTaken(sizes[0])))
        sizes.append((await page(stream))[1])
        assert await is_silent(client, stream)
        stream.send(FrameKind.TAKEN, SCAN, codec.encode(BytesTaken(sizes[0])))  # said before
        stream.send(FrameKind.TAKEN, SCAN, codec.encode(BytesTaken(sum(sizes) + 1)))  # more than was sent
        assert await is_silent(client, stream)
        while len(sizes) < FRAMES:
            stream.send(FrameKind.TAKEN, SCAN, codec.encode(BytesTaken(sum(sizes))))
            sizes.append((await page(stream))[1])


async def test_a_page_that_is_larger_than_the_window_comes_when_nothing_is_untaken(client: Client) -> None:
    await write(client)
    async with scanning(client, window_bytes=0) as stream:
        taken = 0
        for _ in range(FRAMES):
            taken += (await page(stream))[1]
            assert await is_silent(client, stream)
            stream.send(FrameKind.TAKEN, SCAN, codec.encode(BytesTaken(taken)))


async def test_a_scan_that_waits_for_its_client_holds_no_pages(tmp_path: Path) -> None:
    async with with_limits(tmp_path) as client:
        await write(client)
        async with scanning(client, window_bytes=0) as stream:
            await page(stream)
            assert await is_silent(client, stream)
            await until_held(client, "untaken_bytes", 0)
            assert (await told(client))["calls"]["now"] == 1


async def test_a_scan_of_which_nothing_is_taken_is_ended_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "UNTAKEN_SECONDS_MAX", 0.2)
    async with with_limits(tmp_path) as client:
        await write(client)
        async with scanning(client, window_bytes=0) as stream:
            await page(stream)
            answer = there(await stream.receive())
            assert (answer.kind, answer.call, answer.body) == (FrameKind.REFUSED, SCAN, NOT_TAKEN.encode())
            await until_held(client, "calls", 0)
            assert await is_silent(client, stream), "its connection goes on"


async def test_a_cancelled_scan_sends_nothing_more(tmp_path: Path) -> None:
    async with with_limits(tmp_path) as client:
        await write(client)
        async with scanning(client, window_bytes=0) as stream:
            _, size = await page(stream)
            stream.send(FrameKind.CANCEL, SCAN)
            stream.send(FrameKind.TAKEN, SCAN, codec.encode(BytesTaken(size)))
            assert await is_silent(client, stream)
            await until_held(client, "calls", 0)


async def test_garbage_in_place_of_what_was_taken_ends_that_scan_alone(client: Client) -> None:
    await write(client)
    async with scanning(client, window_bytes=0) as stream:
        await page(stream)
        stream.send(FrameKind.TAKEN, SCAN, [b"\xff garbage"])
        answer = await stream.receive()
        assert answer is not None and answer.kind is FrameKind.REFUSED and b"checksum mismatch" in answer.body
        assert await is_silent(client, stream)


@pytest.mark.parametrize(
    ("ledger_id", "incarnation", "status"),
    [
        (404, None, Status.NO_SUCH_LEDGER),
        (7, "another", Status.WRONG_INCARNATION),
        (-1, None, Status.BAD_REQUEST),
    ],
)
async def test_what_cannot_be_scanned_is_told_once(
    client: Client, ledger_id: int, incarnation: str | None, status: Status
) -> None:
    await write(client)
    async with client.stream() as stream:
        request = ScanRequest(incarnation or client.incarnation, ledger_id, 0, 1, 1, NO_LIMIT)
        stream.send(FrameKind.SCAN, SCAN, codec.encode(request))
        reply, _ = await page(stream)
        assert reply.status is status
        assert await is_silent(client, stream)


async def test_what_a_bookie_lacks_of_the_range_is_covered_by_a_page_without_it(client: Client) -> None:
    """R6: it says so, and the reader decides."""
    await client.append(client.request(0, frame_of(7, [0, 1]), frame_of(7, [5, 6])))
    async with scanning(client, 0, 90) as stream:
        first, _ = await page(stream)
        assert (list(first.columns.ids), first.covered_through) == ([0, 1], 4)
        second, _ = await page(stream)
        assert (list(second.columns.ids), second.covered_through) == ([5, 6], 90)


async def test_a_bookie_that_stops_waits_for_no_scan(tmp_path: Path) -> None:
    async with AsyncExitStack() as scans:
        async with served(tmp_path) as client:
            await write(client)
            stream = await scans.enter_async_context(scanning(client, window_bytes=0))
            await page(stream)
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < UNTAKEN_SECONDS_MAX / 4
        answer = await stream.receive()
        assert answer is not None and (answer.kind, answer.call) == (FrameKind.REFUSED, SCAN)
        assert b"stopping" in answer.body
