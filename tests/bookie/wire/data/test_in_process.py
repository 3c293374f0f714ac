"""Where two ends in one process must be as two ends of a socket, beside what test_connection asks of both."""

from __future__ import annotations

import asyncio

import pytest

from bookie.wire.data import in_process
from bookie.wire.data.framing import FrameKind

from .test_connection import Ear, until

MIB = 1024 * 1024


@pytest.fixture
async def ends() -> tuple[Ear, Ear]:
    client, server = Ear(asks=True), Ear(asks=False)
    in_process.join(client.connection, server.connection, "127.0.0.1:3181")
    return client, server


async def test_a_write_calls_nobody_before_the_next_turn(ends: tuple[Ear, Ear]) -> None:
    client, server = ends
    client.connection.send(FrameKind.APPEND, 1, [b"an entry"])
    assert server.heard == []
    await asyncio.sleep(0)
    assert server.heard == [(FrameKind.APPEND, 1, b"an entry")]


async def test_a_turn_takes_no_more_than_its_share(ends: tuple[Ear, Ear]) -> None:
    client, server = ends
    client.connection.send(FrameKind.APPEND, 1, [bytes(3 * MIB)])
    turns = 0
    while not server.heard:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 3 * MIB // in_process.TURN_BYTES_MAX


async def test_one_that_is_held_gets_what_was_sent_before_a_close_once_it_goes_on(
    ends: tuple[Ear, Ear],
) -> None:
    client, server = ends
    server.connection.hold("it is busy")
    client.connection.send(FrameKind.APPEND, 1, [b"the last"])
    client.connection.close("done")
    for _ in range(10):
        await asyncio.sleep(0)
    assert (client.why, server.why, server.heard) == ([], [], [])
    server.connection.go_on("it is busy")
    await until(lambda: client.why and server.why)
    assert [body for _, _, body in server.heard] == [b"the last"]


async def test_last_words_before_an_abort_reach_one_that_reads_and_one_that_does_not_is_not_waited_for(
    ends: tuple[Ear, Ear],
) -> None:
    client, server = ends
    server.connection.send(FrameKind.GOODBYE, 0, [b"you took too long"])
    client.connection.hold("it is stuck")
    client.connection.send(FrameKind.CANCEL, 1)
    client.connection.abort("enough")
    await until(lambda: client.why and server.why)
    assert client.heard == [] and server.heard == [(FrameKind.CANCEL, 1, b"")]


def encoded(message: str) -> list[bytes]:
    return [message.encode()]


async def test_a_message_is_passed_as_it_is_in_order_with_the_frames_before_and_behind_it(
    ends: tuple[Ear, Ear],
) -> None:
    client, server = ends
    message = b"an entry"
    server.connection.on_message = lambda passed: server.heard.append((FrameKind.APPEND, 0, passed))
    client.connection.send(FrameKind.HELLO, 1, [b"before"])
    client.connection.send_message(FrameKind.APPEND, message, len, lambda whole: [whole])
    client.connection.send(FrameKind.CANCEL, 2)
    assert server.heard == []
    await asyncio.sleep(0)
    assert [body for _, _, body in server.heard] == [b"before", message, b""]
    assert server.heard[1][2] is message


async def test_a_message_to_a_peer_that_takes_none_is_a_frame(ends: tuple[Ear, Ear]) -> None:
    client, server = ends
    client.connection.send_message(FrameKind.APPEND, "an entry", len, encoded)
    await until(lambda: server.heard)
    assert server.heard == [(FrameKind.APPEND, 0, b"an entry")]


async def test_messages_that_wait_hold_their_sender_back_as_bytes_do(ends: tuple[Ear, Ear]) -> None:
    client, server = ends
    passed: list[str] = []
    server.connection.on_message = passed.append
    server.connection.hold("it is busy")
    client.connection.send_message(FrameKind.APPEND, "first", lambda _: MIB, encoded)
    assert client.connection.is_writable
    client.connection.send_message(FrameKind.APPEND, "second", lambda _: 1, encoded)
    assert not client.connection.is_writable
    await asyncio.sleep(0)
    assert passed == []
    server.connection.go_on("it is busy")
    await until(lambda: client.connection.is_writable)
    assert passed == ["first", "second"]


async def test_a_turn_takes_no_more_messages_than_its_share(ends: tuple[Ear, Ear]) -> None:
    client, server = ends
    passed: list[str] = []
    server.connection.on_message = passed.append
    for message in ("first", "second"):
        client.connection.send_message(
            FrameKind.APPEND, message, lambda _: in_process.TURN_BYTES_MAX, encoded
        )
    await asyncio.sleep(0)
    assert passed == ["first"]
    await asyncio.sleep(0)
    assert passed == ["first", "second"]
