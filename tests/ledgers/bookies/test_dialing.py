"""Connecting to whatever answers at a bookie's address: each ends with one reason, in time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from bookie.wire.data.framing import HEADER, Body, FrameKind, Goodbye, framed
from ledgers.bookies.dialing import dial
from ledgers.errors import BookieStarting, BookieUnavailable
from metadata.records.ledger_record import BookieRef

BOOKIE = BookieRef("b1", "i1")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Nobody:
    """A handler that nothing may reach."""

    def received(self, kind: FrameKind, call: int, body: Body) -> None:
        raise AssertionError

    def writable(self) -> None:
        raise AssertionError

    def lost(self, why: str) -> None:
        raise AssertionError(why)


async def why_not(serve: Serve, seconds_max: float = 5.0) -> str:
    return (await refusal(serve, seconds_max)).why


async def refusal(serve: Serve, seconds_max: float = 5.0) -> BookieUnavailable:
    writers: list[asyncio.StreamWriter] = []

    async def remembered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await serve(reader, writer)

    server = await asyncio.start_server(remembered, "127.0.0.1", 0)
    try:
        with pytest.raises(BookieUnavailable) as refused:
            await dial(BOOKIE, f"127.0.0.1:{server.sockets[0].getsockname()[1]}", Nobody(), seconds_max)
        return refused.value
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def saying(data: bytes) -> Serve:
    """Reads the hello, answers with these bytes, and ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size, _, kind = HEADER.unpack(await reader.readexactly(HEADER.size))
        assert kind is not None and b"bookledger data" in await reader.readexactly(size)
        writer.write(data)
        writer.write_eof()

    return serve


@pytest.mark.parametrize(
    ("reason", "error"), [(Goodbye.STARTING, BookieStarting), (0, BookieUnavailable), (77, BookieUnavailable)]
)
async def test_one_that_starts_is_told_from_others_by_the_number_in_its_goodbye_and_not_by_its_words(
    reason: int, error: type[BookieUnavailable]
) -> None:
    refused = await refusal(saying(b"".join(framed(FrameKind.GOODBYE, reason, [b"the bookie is starting"]))))
    assert (type(refused), refused.why) == (error, "the bookie is starting")


async def test_a_port_that_nobody_listens_on_is_named_with_the_systems_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(BookieUnavailable) as refused:
        await dial(BOOKIE, address, Nobody(), 5.0)
    assert refused.value.why == f"cannot connect to {address}: Connection refused"


async def test_one_that_accepts_and_is_silent_is_given_up_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    assert await why_not(silent, seconds_max=0.2) == "it did not answer within 0.2 s"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "it ended the connection"),
        (b"".join(framed(FrameKind.GOODBYE, 0, [b"the bookie is starting"])), "the bookie is starting"),
        (b"".join(framed(FrameKind.ACKS, 0, [])), "it did not answer the client hello"),
        (b"".join(framed(FrameKind.SERVER_HELLO, 0, [b"{}"])), "not a hello of the data protocol"),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03", "it ended the connection"),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "its bytes cannot be decoded: a frame of 1347703880 bytes",
        ),
    ],
    ids=["nothing", "goodbye", "no hello", "an empty hello", "HTTP/2", "HTTP/1"],
)
async def test_one_that_does_not_complete_the_handshake_is_named_with_the_reason(
    said: bytes, why: str
) -> None:
    assert (await why_not(saying(said))).startswith(why)
