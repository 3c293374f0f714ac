"""One append stream to one bookie: the lanes of all ledgers share it, a message carries all that waited.

Whatever gathers while a message is written is the next message, up to FRAME_BYTES_MAX; no timer is
involved. At most `window_bytes_max` are sent and unanswered; what more there is waits in the lanes,
each bounded by itself. When the stream breaks, or an answer does not come in time, all its lanes
fail at once, and the next lane begins a new stream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from bookie.wire import (
    FRAME_BYTES_MAX,
    Ack,
    AppendRequest,
    BadMessage,
    Credential,
    Frame,
    LacStatement,
    Status,
    codec,
)
from bookie.wire.credentials import NONCE_METADATA_KEY, Purpose
from metadata.records.ledger_record import BookieRef

from ..bookie_client import LaneListener, LaneTerms
from ..config import ClientConfig
from ..tasks import was_stopped
from .queued_lane import QueuedLane

FRAME_OVERHEAD_BYTES = 128
"""What a frame takes in a message besides its columns."""

FRAMES_IN_FLIGHT_MAX = 1024
"""Frames sent and unanswered on one stream."""

ELSEWHERE = "another bookie answers at its address"

END_SECONDS_MAX = 0.5
"""How long a bookie has to end a stream that this client has ended."""


@dataclass(slots=True)
class _InFlight:
    lane: QueuedLane
    last_entry: int
    size: int
    sent_at: float


class AppendStream:
    """A bidirectional stream and its two tasks. `on_broken` is called once, when it can be used no more."""

    def __init__(
        self,
        bookie: BookieRef,
        config: ClientConfig,
        connect: Callable[[], Any],
        on_broken: Callable[[AppendStream], None],
    ) -> None:
        self._bookie = bookie
        self._config = config
        self._connect = connect
        self._on_broken = on_broken
        self._lanes: set[QueuedLane] = set()
        self._ready: deque[QueuedLane] = deque()
        self._in_flight: dict[int, _InFlight] = {}
        self._in_flight_bytes = 0
        self._answered_at = 0.0
        self._next_sequence = 0
        self._work = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())
        self._nonce = b""
        self._is_connected = False
        self._is_closing = False

    def open_lane(
        self,
        terms: LaneTerms,
        listener: LaneListener,
        last_add_confirmed: Callable[[], LacStatement | None],
    ) -> QueuedLane:
        lane = QueuedLane(
            self,
            terms,
            listener,
            last_add_confirmed,
            backlog_bytes_max=self._config.lane_bytes_max,
            fails_behind=self._config.under_replicate_rather_than_wait or terms.recovery,
        )
        self._lanes.add(lane)
        return lane

    def lane_has_work(self, lane: QueuedLane) -> None:
        if not lane.in_line:
            lane.in_line = True
            self._ready.append(lane)
        self._work.set()

    def lane_closed(self, lane: QueuedLane) -> None:
        self._lanes.discard(lane)

    def credential_of(self, terms: LaneTerms) -> Credential:
        """For all frames of a lane on this stream; there is a nonce by the time frames are sent."""
        return terms.key.credential(Purpose.APPEND, self._bookie.incarnation, self._nonce)

    async def close(self) -> None:
        """Ends the stream; its lanes are told nothing (their owners have closed them).

        The bookie is left to end it: of a call that is given up gRPC tells later, when the loop may be closed.
        """
        self._is_closing = True
        self._work.set()
        if self._is_connected:
            await asyncio.wait([self._task], timeout=END_SECONDS_MAX)
        self._task.cancel()
        await asyncio.wait([self._task])

    def give_up(self, why: str) -> None:
        """Breaks: its lanes fail, and the next one needs another stream."""
        self._task.cancel()
        self._break(why)

    # ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Sends and receives until something breaks; then every lane fails with the same reason."""
        try:
            why = await self._serve()
        except asyncio.CancelledError:
            if self._task.cancelling():
                raise  # by `close`, or with the whole loop: in either case nobody waits for its lanes
            why = "its connection was given up"  # gRPC cancels the calls of a channel that is closed
        except Exception as error:
            # Whatever it was, the lanes must hear of it, or their writers wait for ever.
            why = f"its stream failed: {error!r}"
        self._break(why)

    async def _serve(self) -> str:
        try:
            call = await self._connect()
            self._nonce = await self._nonce_of(call)
            self._is_connected = True
        except TimeoutError:
            return f"it did not answer within {self._config.append_seconds_max:g} s"
        except (grpc.aio.AioRpcError, OSError, LookupError) as error:
            return describe(error)
        sending = self._loop.create_task(self._send_all(call))
        receiving = self._loop.create_task(self._receive_all(call))
        overdue = self._loop.create_task(self._until_overdue())
        tasks = (sending, receiving, overdue)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for task in tasks:
                task.cancel()
            call.cancel()
            await asyncio.wait(tasks)

    async def _nonce_of(self, call: Any) -> bytes:
        """What the bookie gave this stream, for proofs that are worth nothing on another."""
        try:
            async with asyncio.timeout(self._config.append_seconds_max):
                metadata = await call.initial_metadata()
        except BaseException:
            call.cancel()
            raise
        return next((bytes(value) for key, value in metadata or () if key == NONCE_METADATA_KEY), b"")

    async def _send_all(self, call: Any) -> str:
        try:
            while True:
                await self._work.wait()
                request = self._next_request()
                if request is None:
                    if self._is_closing:
                        await call.done_writing()
                        await asyncio.sleep(END_SECONDS_MAX)
                        return "it did not end its stream"
                    self._work.clear()
                    continue
                await call.write(codec.encode_append_request(request))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            return await why_ended(call, error)

    async def _receive_all(self, call: Any) -> str:
        try:
            async for data in call:
                acks = codec.decode_append_reply(data).acks
                for ack in acks:
                    self._acked(ack)
                if acks and acks[-1].status is Status.WRONG_INCARNATION:  # it refuses a message as a whole
                    return ELSEWHERE
                if self._ready:
                    self._work.set()
            return "it ended the stream"
        except grpc.aio.AioRpcError as error:
            return describe(error)
        except BadMessage as error:
            return f"its answer cannot be understood: {error}"

    async def _until_overdue(self) -> str:
        """Returns when something is unanswered, and nothing was answered for longer than allowed (rule W6)."""
        limit, not_before = self._config.append_seconds_max, 0.0
        while True:
            oldest = next(iter(self._in_flight.values()), None)
            now = self._loop.time()
            due = now + limit if oldest is None else max(oldest.sent_at, self._answered_at) + limit
            due = max(due, not_before)
            if now >= due:
                return f"no answer for {limit:g} s"
            await asyncio.sleep(due - now)
            if was_stopped(due):
                not_before = self._loop.time() + limit

    def _next_request(self) -> AppendRequest | None:
        """Frames of the ready lanes in turn, up to a message's size; None when the window is full or nothing waits."""
        if self._in_flight_bytes >= self._config.window_bytes_max:
            return None
        frames: list[Frame] = []
        first = self._next_sequence
        room = FRAME_BYTES_MAX
        while self._ready and room > 0 and len(self._in_flight) < FRAMES_IN_FLIGHT_MAX:
            lane = self._ready.popleft()
            lane.in_line = False
            if not lane.has_work:
                continue
            frame = lane.next_frame(room)
            room -= frame.columns.size_bytes + FRAME_OVERHEAD_BYTES
            self._note_sent(lane, frame)
            frames.append(frame)
            if lane.has_work:
                self.lane_has_work(lane)
        if not frames:
            return None
        return AppendRequest(self._bookie.incarnation, first, tuple(frames))

    def _note_sent(self, lane: QueuedLane, frame: Frame) -> None:
        size = frame.columns.size_bytes
        self._in_flight[self._next_sequence] = _InFlight(lane, lane.through(frame), size, self._loop.time())
        self._in_flight_bytes += size
        self._next_sequence += 1

    def _acked(self, ack: Ack) -> None:
        sent = self._in_flight.pop(ack.sequence)
        self._answered_at = self._loop.time()
        self._in_flight_bytes -= sent.size
        sent.lane.answered(ack, sent.last_entry, sent.size)

    def _break(self, why: str) -> None:
        self._on_broken(self)
        for lane in list(self._lanes):
            lane.fail(why)
        self._ready.clear()
        self._in_flight.clear()


def describe(error: BaseException) -> str:
    """One line for people."""
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name.lower().replace('_', ' ')}: {error.details()}"
    return str(error) or type(error).__name__


async def why_ended(call: Any, error: BaseException) -> str:
    """Why a stream could not be written: what the peer said of it, else the error itself."""
    if isinstance(error, grpc.aio.AioRpcError):
        return describe(error)
    if call.done():
        return f"{(await call.code()).name.lower().replace('_', ' ')}: {await call.details()}"
    return describe(error)
