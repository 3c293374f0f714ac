"""A bookie's data protocol: every frame is answered with a status, and only what is no message ends a connection.

W7: a message for another incarnation is refused, whatever it asks. Records name one by `BookieRef`; whole bookies that
were replaced are in integration/test_recovering.py.
"""

from __future__ import annotations

from bookie.wire import codec
from bookie.wire.columnar_entries import ENTRY_BYTES_MAX
from bookie.wire.data.framing import FrameKind
from bookie.wire.messages import (
    Ack,
    AppendRequest,
    Frame,
    InfoReply,
    InfoRequest,
    LacReply,
    ReadReply,
    Status,
)
from tests.bookie.bookies import entries
from tests.bookie.entries import columns_of, entries_of, entry_of, frame_of, lac_of
from tests.bookie.serving.served import Client, acks, plain

OK = Status.OK


async def test_every_frame_is_acknowledged_under_its_sequence_number(client: Client) -> None:
    found = await client.append(
        client.request(5, frame_of(7, [0, 1]), frame_of(8, [0])),
        client.request(7),
        client.request(7, frame_of(7, [2], lac=1)),
    )
    assert plain(found) == acks(5, [OK] * 3)
    reply = await client.read(7, 0, 9)
    assert reply == ReadReply(OK, frame_of(7, range(3)).columns, 9, (), lac_of(1))
    told = await client.last_add_confirmed(7)
    assert (told.status, told.last_add_confirmed) == (OK, lac_of(1))


async def test_a_frame_is_acknowledged_while_the_stream_stays_open(client: Client) -> None:
    async with client.stream() as stream:
        for sequence in range(3):
            stream.send(FrameKind.APPEND, 0, client.request(sequence, frame_of(7, [sequence])))
            assert await stream.acks() == (Ack(sequence, OK),)


async def test_a_fenced_ledgers_writer_is_told_so(client: Client) -> None:
    await client.append(client.request(0, frame_of(7, [0])))
    assert (await client.read(7, 0, 0, fence=True)).status is OK
    assert (await client.last_add_confirmed(404, fence=True)).status is Status.NO_SUCH_LEDGER
    found = await client.append(
        client.request(1, frame_of(7, [1]), frame_of(404, [0]), frame_of(7, [1], recovery=True))
    )
    assert sorted(plain(found)) == acks(1, [Status.FENCED, Status.FENCED, OK])


async def test_W7_a_message_for_another_incarnation_is_refused_and_does_nothing(client: Client) -> None:
    for other in ("00000000-66b0-4f3e-9d0c-2b1f6f0d8a11", ""):
        request = codec.encode(AppendRequest(other, 3, (frame_of(7, [0]), frame_of(7, [1]))))
        assert plain(await client.append(request)) == acks(3, [Status.WRONG_INCARNATION] * 2)
        detail = f"this is incarnation {client.incarnation} of b1"
        assert await client.read(7, 0, 0, incarnation=other, fence=True) == ReadReply(
            Status.WRONG_INCARNATION, detail=detail
        )
        assert await client.last_add_confirmed(7, incarnation=other, fence=True) == LacReply(
            Status.WRONG_INCARNATION, detail=detail
        )
    assert plain(await client.append(client.request(0, frame_of(7, [0])))) == [(0, OK)]


async def test_an_entry_that_is_too_large_is_a_bad_request_and_its_neighbours_are_stored(
    client: Client,
) -> None:
    large = Frame(7, columns_of([entry_of(7, 0, ENTRY_BYTES_MAX + 1)]))
    largest = Frame(7, columns_of([entry_of(7, 0, ENTRY_BYTES_MAX)]))
    found = await client.append(client.request(0, large, frame_of(7, [1])), client.request(2, largest))
    assert sorted(plain(found)) == acks(0, [Status.BAD_REQUEST, OK, OK])
    reply = await client.read(7, 0, 1)
    assert entries_of(reply.columns) == [entry_of(7, 0, ENTRY_BYTES_MAX)]


async def test_a_message_that_is_garbage_ends_its_connection_and_nobody_elses(client: Client) -> None:
    async with client.stream() as stream:
        stream.send(FrameKind.APPEND, 0, client.request(0, frame_of(7, [0])))
        assert await stream.acks() == (Ack(0, OK),)
        stream.send(FrameKind.APPEND, 0, [b"\xff garbage"])
        answer = await stream.receive()
        assert answer is not None and answer.kind is FrameKind.GOODBYE
        assert b"checksum mismatch" in answer.body
        assert await stream.receive() is None
    assert entries_of((await client.read(7, 0, 9)).columns) == entries(7, [0])


async def test_frames_that_no_acknowledgement_has_numbers_for_end_their_connection_and_nobody_elses(
    client: Client,
) -> None:
    frames = frame_of(7, [0]), frame_of(7, [1])
    async with client.stream() as stream:
        request = AppendRequest(client.incarnation, 2**64 - 1, frames)
        stream.send(FrameKind.APPEND, 0, codec.encode(request))
        answer = await stream.receive()
        assert answer is not None and answer.kind is FrameKind.GOODBYE
        assert b"2 frames numbered from 18446744073709551615 on" in answer.body
    assert plain(await client.append(client.request(2**64 - 2, *frames))) == acks(2**64 - 2, [OK, OK])


async def test_a_call_that_is_garbage_is_refused_and_its_connection_goes_on(client: Client) -> None:
    async with client.stream() as stream:
        for kind in (
            FrameKind.READ,
            FrameKind.SCAN,
            FrameKind.LAST_ADD_CONFIRMED,
            FrameKind.HOLDINGS,
            FrameKind.INFO,
        ):
            answer = await stream.call(kind, [b"\xff garbage"])
            assert answer.kind is FrameKind.REFUSED and b"checksum mismatch" in answer.body
        answer = await stream.call(FrameKind.ACKS, [])
        assert answer.kind is FrameKind.REFUSED and b"ACKS is not a kind of call" in answer.body
        answer = await stream.call(FrameKind.INFO, codec.encode(InfoRequest()))
        assert answer.kind is FrameKind.INFO


async def test_a_last_add_confirmed_no_record_can_hold_harms_nobody_else(client: Client) -> None:
    frame = frame_of(7, [0], lac=0)
    assert frame.last_add_confirmed is not None
    bad = Frame(7, frame.columns, type(frame.last_add_confirmed)(0, 0, bytes(codec.LAC_DIGEST_BYTES_MAX + 1)))
    async with client.stream() as stream:
        stream.send(FrameKind.APPEND, 0, client.request(0, bad))
        assert await stream.acks() is None
    assert plain(await client.append(client.request(0, frame))) == [(0, OK)]


async def test_a_request_that_makes_no_sense_is_a_bad_request(client: Client) -> None:
    assert (await client.read(7, 2, 1)).status is Status.BAD_REQUEST
    assert (await client.last_add_confirmed(-7)).status is Status.BAD_REQUEST
    assert (await client.last_add_confirmed(7, wait_ms=60_001)).status is Status.BAD_REQUEST


async def test_a_bookie_tells_who_it_is_and_what_it_has_done(client: Client) -> None:
    await client.append(client.request(0, frame_of(7, range(3))))
    info = codec.decode(InfoReply, await client.call(FrameKind.INFO, codec.encode(InfoRequest())))
    cookie = client.bookie.cookie
    assert (info.bookie_id, info.incarnation, info.cluster_id) == (
        cookie.bookie_id,
        cookie.incarnation,
        cookie.cluster_id,
    )
    assert (info.entries_added, info.bytes_added) == (3, 60)
    assert info.syncs >= 1
    assert 0 < info.disk_bytes_free <= info.disk_bytes_total
