"""An append stream to a peer of the test's own, which keeps what was sent and answers as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bookie.wire import Ack, AppendReply, AppendRequest, Columns, LacStatement, codec, of_payloads
from bookie.wire.credentials import NONCE_BYTES
from bookie.wire.data.data_connection import Connection, Handler
from bookie.wire.data.framing import Body, FrameKind, FrameReader, framed
from bookie.wire.data.handshake import ServerHello
from ledgers.bookie_client import LaneTerms
from ledgers.bookies.append_stream import AppendStream
from ledgers.bookies.queued_lane import QueuedLane
from ledgers.config import MIB, ClientConfig
from ledgers.integrity.ledger_keys import LedgerKey
from ledgers.loop_batching import LoopBatching
from metadata.records.ledger_record import BookieRef
from tests.support.aio import until_true
from tests.support.lane_listener import Listener

BOOKIE = BookieRef("b1", "i1")
CONFIG = ClientConfig(append_seconds_max=0.2)
SMALL = replace(CONFIG, lane_backlog_bytes_max=MIB, pending_bytes_max=MIB, append_seconds_max=5)
LAC = LacStatement(3, 12, b"lac!")


class Peer(asyncio.Transport):
    """The other end of a connection: keeps what was sent, answers as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[AppendRequest] = []
        self.bodies: list[Body] = []
        self.welcome = ServerHello(1, "i1", b"n" * NONCE_BYTES)
        self._reader = FrameReader()
        self._reader.handshake_done()
        self.connection: Connection | None = None
        self._is_closing = False

    def connect(self, handler: Handler) -> Connection:
        self.connection = Connection(handler, asks=True)
        self.connection.reader.handshake_done()
        self.connection.connection_made(self)
        return self.connection

    def answer(self, *acks: Ack) -> None:
        self.say(FrameKind.ACKS, codec.encode(AppendReply(acks)))

    def say(self, kind: FrameKind, body: list[bytes | memoryview]) -> None:
        assert self.connection is not None
        with suppress(LookupError):  # the connection has told its handler, and the loop hears of it too
            self.connection.feed(b"".join(framed(kind, 0, body)))

    def write(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            room = self._reader.buffer()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            frames = self._reader.received(count)
            while self._reader.has_more:
                frames += self._reader.more()
            for frame in frames:
                assert frame.kind is FrameKind.APPEND
                self.bodies.append(frame.body)
                self.requests.append(codec.decode(AppendRequest, frame.body))
            if self._reader.wanted:
                self._reader.go_on()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Everything is taken at once."""

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            assert self.connection is not None
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    abort = close


class Setting:
    """A stream to a peer, with as many lanes as wanted."""

    def __init__(self, config: ClientConfig = CONFIG, connect_error: BaseException | None = None) -> None:
        self.peer = Peer()
        self._connect_error = connect_error
        self.broken: list[AppendStream] = []
        self.stream = AppendStream(BOOKIE, config, self._dial, self.broken.append, LoopBatching())

    async def _dial(self, handler: Handler, seconds_max: float) -> tuple[Connection, ServerHello]:
        del seconds_max
        if self._connect_error is not None:
            raise self._connect_error
        return self.peer.connect(handler), self.peer.welcome

    def lane(
        self, ledger_id: int = 1, *, password: bytes = b"", deferred_sync: bool = False
    ) -> tuple[QueuedLane, Listener]:
        listener = Listener()
        terms = LaneTerms(ledger_id, LedgerKey(ledger_id, password), deferred_sync=deferred_sync)
        return self.stream.open_lane(terms, listener, lambda: LAC), listener


async def until(condition: Callable[[], object]) -> None:
    await until_true(lambda: bool(condition()), pause_seconds=0.001)


async def answered(setting: Setting, told: Listener, *acks: Ack) -> list[object]:
    """All that the lane has heard once it hears of these."""
    before = len(told.heard)
    setting.peer.answer(*acks)
    await until(lambda: len(told.heard) > before)
    return told.heard


def entry(entry_id: int, size: int = 3) -> Columns:
    return of_payloads(entry_id, [bytes(size)], b"dddd")
