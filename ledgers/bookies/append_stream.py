"""An append stream to one bookie: multiplexes the lanes of all ledgers, and coalesces waiting frames into messages.

Frames that become ready in one iteration of the event loop share a message, up to FRAME_BYTES_MAX; no timer is
involved. At most `window_bytes_max` bytes are sent but unanswered; the remaining frames wait in their lanes, each of
which has its own bound. When the connection breaks, or an answer does not arrive in time, all lanes fail at once, and
the next lane opens a new stream.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

from bookie.wire import (
    FRAME_BYTES_MAX,
    AppendReply,
    AppendRequest,
    BadMessage,
    Credential,
    Frame,
    LacStatement,
    Status,
    codec,
)
from bookie.wire.credentials import Purpose
from bookie.wire.data.data_connection import Connection
from bookie.wire.data.framing import Body, FrameKind
from bookie.wire.messages import new_request
from metadata.records.ledger_record import BookieRef

from ..bookie_client import LaneListener, LaneTerms
from ..config import ClientConfig
from ..errors import BookieUnavailable
from ..loop_batching import LoopBatching
from ..tasks import was_suspended
from .dialing import Dial, goodbye
from .queued_lane import QueuedLane

FRAME_OVERHEAD_BYTES = 128
"""Size of a frame in a message, in bytes, not counting its columns."""

NOTES_WEIGHT = FRAME_BYTES_MAX // (64 * 1024)
"""Factor by which each byte of a note counts toward the size of a message: notes are part of a message's header, for
which bookies have a tighter limit. No more frames are added to a message once their notes amount to 64 KiB."""

SMALL_MESSAGES_MAX = 2
"""Maximum number of messages in flight that were not full. At the limit, frames accumulate until a message is answered
or until there are enough frames to fill a message."""

NOTE_DELAY_SECONDS_MAX = 0.2
"""Maximum delay before notes about ledgers that have ended are sent to the bookie. If a message is sent earlier, the
notes go with it."""

QUEUED_NOTES_MAX = 1024
"""Maximum number of notes waiting to be sent. Further notes are dropped, and the bookie has to find out by itself."""

FRAMES_IN_FLIGHT_MAX = 1024
"""Maximum number of frames sent but unanswered on one stream."""

ELSEWHERE = "another bookie answers at its address"

END_SECONDS_MAX = 0.5
"""How long the kernel may take to send the remaining bytes when a stream is closed."""


_InFlight = tuple[QueuedLane, int, int, float]
"""A frame's lane, the last entry that is on disk once the frame is answered OK, the frame's size, and when it was sent.
"""


def size_of(request: AppendRequest) -> int:
    """Returns the approximate size of the message in bytes."""
    return sum([FRAME_OVERHEAD_BYTES + frame.columns.size_bytes for frame in request.every_frame])


class AppendStream:
    """A connection and the frames in flight on it. `on_broken` is called once, when the stream is no longer usable."""

    def __init__(
        self,
        bookie: BookieRef,
        config: ClientConfig,
        dial: Dial,
        on_broken: Callable[[AppendStream], None],
        turn: LoopBatching,
    ) -> None:
        self._bookie = bookie
        self._config = config
        self._dial = dial
        self._on_broken = on_broken
        self._turn = turn
        self._lanes: set[QueuedLane] = set()
        self._ready: deque[QueuedLane] = deque()
        self._in_flight: dict[int, _InFlight] = {}
        self._in_flight_bytes = 0
        self._queued_bytes = 0
        self._notes: deque[tuple[LaneTerms, bytes]] = deque()
        self._notes_timer: asyncio.TimerHandle | None = None
        self._message_ends: deque[int] = deque()  # the last sequence number in each message in flight
        self._answered_at = 0.0
        self._next_sequence = 0
        self._nonce = b""
        self._is_broken = False
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._ended = self._loop.create_future()
        self._will_send = False
        self._overdue: asyncio.TimerHandle | None = None
        self._not_overdue_before = 0.0
        self._connecting = self._loop.create_task(self._connect())

    @property
    def heard_at(self) -> float:
        """When the bookie last sent anything, by the loop's clock; -inf while not connected."""
        return -math.inf if self._connection is None or self._is_broken else self._connection.heard_at

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

    def lane_has_work(self, lane: QueuedLane, size_bytes: int = 0) -> None:
        """Queues the lane for sending; an additional `size_bytes` bytes are waiting in it."""
        self._queued_bytes += size_bytes
        if not lane.in_line:
            lane.in_line = True
            self._ready.append(lane)
        self._send_soon()

    def lane_dropped(self, size_bytes: int) -> None:
        """Subtracts bytes that are no longer waiting."""
        self._queued_bytes -= size_bytes

    def send_note(self, terms: LaneTerms, note: bytes) -> None:
        """Sends this note of a ledger to the bookie, with the next message or soon. The note is not acknowledged, and
        may be lost."""
        if self._is_broken or len(self._notes) == QUEUED_NOTES_MAX:
            return
        self._notes.append((terms, note))
        if self._notes_timer is None:
            self._notes_timer = self._loop.call_later(NOTE_DELAY_SECONDS_MAX, self._send_notes)

    def lane_closed(self, lane: QueuedLane) -> None:
        self._lanes.discard(lane)

    def credential_of(self, terms: LaneTerms) -> Credential:
        """Returns the credential of a lane's frames on this stream. By the time frames are sent, the nonce is known."""
        return terms.key.credential(Purpose.APPEND, self._bookie.incarnation, self._nonce)

    async def close(self) -> None:
        """Closes the stream without notifying its lanes, because their owners have closed them."""
        self._send_notes()
        self._is_broken = True
        self._connecting.cancel()
        await asyncio.wait([self._connecting])
        self._stop_sending()
        if self._connection is not None:
            self._connection.close()
            await asyncio.wait([self._ended], timeout=END_SECONDS_MAX)
            self._connection.abort("it was closed")

    def abort(self, why: str) -> None:
        """Breaks the stream: its lanes fail, and the next one opens another stream."""
        self._connecting.cancel()
        self._break(why)

    # --- events of the connection ---------------------------------------------------------------

    def received(self, kind: FrameKind, call: int, body: Body) -> None:
        """Handles acknowledgements, or the bookie's reason for ending the connection."""
        del call
        if self._is_broken:
            return
        if kind is not FrameKind.ACKS:
            self._break(
                goodbye(body) if kind is FrameKind.GOODBYE else f"it answered an append with {kind.name}"
            )
            return
        try:
            reply = codec.decode(AppendReply, body)
        except BadMessage as error:
            self._break(f"cannot decode its answer: {error}")
        else:
            self._answered(reply)

    def _answered(self, reply: AppendReply) -> None:
        acks = () if self._is_broken else reply.acks
        if acks:
            self._answered_at = self._loop.time()
        for sequence, status, detail in acks:
            lane, through, size, _ = self._in_flight.pop(sequence)
            self._in_flight_bytes -= size
            lane.answered(status, detail, through, size)
        if acks and acks[-1].status is Status.WRONG_INCARNATION:  # the bookie refuses the entire message
            self._break(ELSEWHERE)
        elif self._ready:
            self._send_soon()

    def writable(self) -> None:
        self._send_soon()

    def lost(self, why: str) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
        self._break(why)

    # ------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        try:
            connection, hello = await self._dial(self, self._config.append_seconds_max)
        except BookieUnavailable as error:
            self._break(error.why)
            return
        except Exception as error:
            # Fail the lanes whatever the error; otherwise their writers would wait forever.
            self._break(f"its stream failed: {error!r}")
            return
        self._connection, self._nonce = connection, hello.nonce
        connection.on_message = self._answered
        self._send_soon()

    def _send_soon(self) -> None:
        """Schedules sending for the end of this loop iteration, so that all frames appended during the iteration are
        included."""
        if not (self._will_send or self._connection is None or self._is_broken):
            self._will_send = True
            self._turn.send(self._send_waiting)

    def _send_waiting(self) -> None:
        self._will_send = False
        connection = self._connection
        if connection is None or self._is_broken:
            return  # the stream has broken since this was scheduled
        while self._ready and connection.is_writable and self._is_worth_a_message():
            request = self._next_request()
            if request is None:
                break
            self._message_ends.append(self._next_sequence - 1)
            connection.send_message(FrameKind.APPEND, request, size_of, codec.encode)
        if self._overdue is None and self._in_flight:
            self._look_later()

    def _send_notes(self) -> None:
        self._notes_timer = None
        connection = self._connection
        while self._notes and connection is not None and connection.is_writable and not self._is_broken:
            if (request := self._next_request()) is None:
                break  # the notes are sent with the next frames, once the window has room
            if request.frames:
                self._message_ends.append(self._next_sequence - 1)
            connection.send_message(FrameKind.APPEND, request, size_of, codec.encode)

    def _is_worth_a_message(self) -> bool:
        """Returns whether to send now; limits small messages in flight, because each message has a fixed cost."""
        ends = self._message_ends
        if len(ends) >= SMALL_MESSAGES_MAX:
            oldest = next(iter(self._in_flight), self._next_sequence)
            while ends and ends[0] < oldest:
                ends.popleft()
        return len(ends) < SMALL_MESSAGES_MAX or self._queued_bytes >= FRAME_BYTES_MAX

    def _look_later(self) -> None:
        """Schedules the check for an overdue answer (rule W6)."""
        *_, sent_at = next(iter(self._in_flight.values()))
        due = max(sent_at, self._answered_at) + self._config.append_seconds_max
        due = max(due, self._not_overdue_before)
        self._overdue = self._loop.call_at(due, self._look_for_answers, due)

    def _look_for_answers(self, due: float) -> None:
        """Breaks the stream if an answer is overdue. One timer serves all frames in flight, and messages do not reset
        it."""
        self._overdue = None
        if not self._in_flight:
            return
        limit, now = self._config.append_seconds_max, self._loop.time()
        if was_suspended(due):
            self._not_overdue_before = now + limit
        *_, sent_at = next(iter(self._in_flight.values()))
        overdue_at = max(sent_at, self._answered_at) + limit
        if now >= max(overdue_at, self._not_overdue_before):
            self._break(f"no answer for {limit:g} s")
        else:
            self._look_later()

    def _next_request(self) -> AppendRequest | None:
        """Takes frames from the ready lanes in turn, up to the size of a message; None if the window is full or no
        frame is waiting."""
        if self._in_flight_bytes >= self._config.window_bytes_max:
            return None
        frames: list[Frame] = []
        first, now = self._next_sequence, self._loop.time()
        room, in_flight = FRAME_BYTES_MAX, self._in_flight
        while self._ready and room > 0 and len(in_flight) < FRAMES_IN_FLIGHT_MAX:
            lane = self._ready.popleft()
            lane.in_line = False
            if (made := lane.next_frame(room)) is None:
                continue
            frame, size, through = made
            room -= size + FRAME_OVERHEAD_BYTES + NOTES_WEIGHT * len(frame.note)
            in_flight[self._next_sequence] = lane, through, size, now
            self._next_sequence += 1
            self._queued_bytes -= size
            self._in_flight_bytes += size
            frames.append(frame)
            if lane.has_work:
                self.lane_has_work(lane)
        note_frames: list[Frame] = []
        while self._notes and room > 0 and len(frames) + len(note_frames) < FRAMES_IN_FLIGHT_MAX:
            note_frames.append(self._make_note_frame(*self._notes.popleft()))
            room -= FRAME_OVERHEAD_BYTES + NOTES_WEIGHT * len(note_frames[-1].note)
        if not (frames or note_frames):
            return None
        return new_request((self._bookie.incarnation, first, tuple(frames), tuple(note_frames)))

    def _make_note_frame(self, terms: LaneTerms, note: bytes) -> Frame:
        return Frame(
            terms.ledger_id,
            recovery=terms.recovery,
            credential=self.credential_of(terms),
            identity=terms.identity,
            note=note,
        )

    def _break(self, why: str) -> None:
        if self._is_broken:
            return
        self._is_broken = True
        self._on_broken(self)
        for lane in list(self._lanes):
            lane.fail(why)
        self._stop_sending()
        if self._connection is not None:
            self._connection.abort(why)

    def _stop_sending(self) -> None:
        """Stops sending frames and waiting for answers."""
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if self._notes_timer is not None:
            self._notes_timer.cancel()
            self._notes_timer = None
        self._notes.clear()
        self._ready.clear()
        self._in_flight.clear()
