"""RPC client for a JournalNode's port: sends calls in order over one connection, which is reopened if it is lost."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from ... import errors
from ...errors import (
    BadJournalState,
    BadRequest,
    EditsNotCached,
    JournalError,
    JournalNotEmpty,
    JournalNotFormatted,
    JournalOutOfSync,
    JournalUnavailable,
    NewerTxid,
    RuleViolated,
    StaleEpoch,
)
from ..errors import BadRpcFrame, NoSuchMethod, RemoteError
from ..wire import hadoop_pb2 as pb
from ..wire.hadoop_rpc import (
    CONTEXT_CALL,
    FINAL,
    JOURNAL_PROTOCOL,
    PROTOCOL_BUFFERS,
    PROTOCOL_VERSION,
    SUCCESS,
    parse,
)
from ..wire.rpc_framing import FRAME_BYTES_MAX, IPC_VERSION, MAGIC, SIMPLE, RpcFrameReader, frame_of, parts_of

SAID_CHARACTERS_MAX = 2000
"""Maximum number of characters of a JournalNode's error message that are kept. The Java stack trace that follows the
message is dropped."""

_STALE = ("is less than the last promised epoch", "<= last promise", "is not the current writer epoch")
_NO_CACHE = "journal edits cache is not enabled"
"""The error message of a Hadoop 3.x JournalNode whose configuration disables in-progress tailing."""

_CLASSES = (
    BadRequest,
    BadJournalState,
    EditsNotCached,
    JournalNotEmpty,
    JournalNotFormatted,
    JournalOutOfSync,
    NewerTxid,
    NoSuchMethod,
    RuleViolated,
)
_BY_JAVA_CLASS: dict[str, type[JournalError]] = {one.java_class: one for one in _CLASSES}


def error_named(java_class: str, message: str, own_class: str = "") -> JournalError:
    """Returns the error for a Hadoop exception class. `own_class` is the error class that our own nodes report in
    addition."""
    said = message.partition("\n\tat ")[0][:SAID_CHARACTERS_MAX].removeprefix(f"{java_class}: ")
    ours = getattr(errors, own_class, None) if own_class.isidentifier() else None
    if isinstance(ours, type) and issubclass(ours, JournalError):
        return _saying(ours, said)
    if any(phrase in said for phrase in _STALE):
        return StaleEpoch(said)
    if _NO_CACHE in said:
        return _saying(EditsNotCached, said)
    known = _BY_JAVA_CLASS.get(java_class)
    return _saying(known, said) if known is not None else RemoteError(java_class, said)


def _saying(kind: type[JournalError], said: str) -> JournalError:
    """Creates an error with the node's message, bypassing the error's constructor."""
    error = kind.__new__(kind, said)
    if isinstance(error, EditsNotCached):
        error.missing_txns = 0
    return error


M = TypeVar("M", bound=Message)

CONNECT_SECONDS_MAX = 20.0
CALL_SECONDS_MAX = 120.0
"""Time limits for connecting to a JournalNode, and for one call."""

READ_BYTES = 256 * 1024
CALL_ID_MAX = 2**31 - 1
USER = "bookledger"


class NodeClient:
    """Makes RPCs to one address. Belongs to its event loop."""

    def __init__(self, address: str, user: str = USER) -> None:
        self.address = address
        self._user = user
        self._client_id = os.urandom(16)
        self._numbers = itertools.cycle(range(CALL_ID_MAX))
        self._turns = asyncio.Lock()
        self._answers: dict[int, asyncio.Future[list[bytes]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def call(
        self, method: str, message: Message, reply: type[M], protocol: str = JOURNAL_PROTOCOL
    ) -> M:
        """Makes a call. Raises the error that the node returns, or JournalUnavailable if the node does not answer."""
        number = next(self._numbers)
        answer: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        header = pb.CallHeader(method=method, protocol=protocol, version=PROTOCOL_VERSION)
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                async with self._turns:
                    writer = await self._connected()
                    self._answers[number] = answer
                    writer.write(self._frame(number, header, message))
                    await writer.drain()
                parts = await answer
        except TimeoutError as error:
            self._lost(
                JournalUnavailable(f"{self.address} did not answer {method} in {CALL_SECONDS_MAX:g} s")
            )
            raise JournalUnavailable(
                f"{self.address} did not answer {method} in {CALL_SECONDS_MAX:g} s"
            ) from error
        except OSError as error:
            raise JournalUnavailable(f"{self.address} cannot be reached: {error}") from error
        finally:
            self._answers.pop(number, None)
        return self._parsed(parts, reply)

    async def close(self) -> None:
        """Closes the connection; calls in flight fail."""
        reading, self._reading = self._reading, None
        self._lost(JournalUnavailable(f"the connection to {self.address} was closed"))
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading])

    def _frame(self, number: int, *messages: Message) -> bytes:
        header = pb.RequestHeader(
            rpc_kind=PROTOCOL_BUFFERS, rpc_op=FINAL, call_id=number, client_id=self._client_id, retry_count=0
        )
        return frame_of([header.SerializeToString(), *(one.SerializeToString() for one in messages)])

    async def _connected(self) -> asyncio.StreamWriter:
        if self._writer is not None:
            return self._writer
        host, _, port = self.address.rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except TimeoutError as error:
            raise JournalUnavailable(f"{self.address} cannot be reached: it did not answer") from error
        context = pb.ConnectionContext(
            user_info=pb.UserInfo(effective_user=self._user), protocol=JOURNAL_PROTOCOL
        )
        writer.write(MAGIC + bytes([IPC_VERSION, 0, SIMPLE]) + self._frame(CONTEXT_CALL, context))
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader, writer))
        return writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = RpcFrameReader(FRAME_BYTES_MAX)
        why: JournalError = JournalUnavailable(f"{self.address} closed the connection")
        try:
            while data := await reader.read(READ_BYTES):
                for frame in frames.feed(data):
                    self._heard(parts_of(frame))
        except (OSError, BadRpcFrame, DecodeError) as error:
            why = JournalUnavailable(f"the connection to {self.address} broke: {error}")
        finally:
            if self._writer is writer:
                self._lost(why)

    def _heard(self, parts: list[bytes]) -> None:
        header = pb.ResponseHeader()
        parse(header, parts[0] if parts else b"")
        answer = self._answers.get(header.call_id)
        if answer is not None and not answer.done():
            answer.set_result(parts)

    def _lost(self, why: JournalError) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(why)

    def _parsed(self, parts: list[bytes], reply: type[M]) -> M:
        header = pb.ResponseHeader()
        header.ParseFromString(parts[0])
        if header.status != SUCCESS:
            raise error_named(header.exception_class, header.error_message, header.own_class)
        message = reply()
        try:
            parse(message, parts[1] if len(parts) > 1 else b"")
        except DecodeError as error:
            raise JournalUnavailable(f"{self.address} sent an unreadable answer: {error}") from error
        return message
