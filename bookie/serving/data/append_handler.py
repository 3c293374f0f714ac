"""Serves a connection's appends: accepts frames and acknowledges them in batches.

Back-pressure: the bookie stops reading from the connection while its log queue is full, or while the client is not
reading its answers; TCP then slows the client down. The bytes of a large message count against `memory` until the
message is in the queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from metadata.audit import Act

from ...storage.intake_queue import Arrival, new_arrival
from ...storage.storage_metrics import RequestKind
from ...wire import AppendReply, AppendRequest, Frame, codec
from ...wire.data.data_connection import Connection
from ...wire.data.framing import Body, FrameKind
from ...wire.messages import NO_NOTE, Ack, Status, new_ack, new_reply
from ...wire.trust.identity import Peer
from ...wire.trust.roles import CALLS
from ..limits.password_proofs import PeerProofs
from ..limits.shared_quota import Account
from ..request_processor import TOO_LARGE, RequestProcessor, too_large

STOPPING = "the bookie is stopping"

ACK_BYTES = 16
"""Approximate size of an acknowledgement in a message, excluding its detail."""

TAKES = "an earlier message is waiting for the log, a proof, or a verifier"

Refused = Mapping[int, tuple[Status, str]]


class AppendHandler:
    """Serves the appends of one connection. Calls `on_answered` each time it has sent a message with answers."""

    def __init__(
        self,
        requests: RequestProcessor,
        connection: Connection,
        who: Peer,
        proofs: PeerProofs,
        memory: Account,
        on_answered: Callable[[], None],
    ) -> None:
        self._requests = requests
        self._bookie = requests.bookie
        self._connection = connection
        self._on_answered = on_answered
        self._who = who
        self._may_not = who.may_not(CALLS[FrameKind.APPEND])
        self._proofs = proofs
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._acks: list[Ack] = []
        self._is_send_due = False
        # Messages that arrived while an earlier one was waiting, each with the memory that it occupies.
        self._waiting: deque[tuple[AppendRequest, int, Arrival]] = deque()
        self._sender = who.address, str(who.identity or ""), connection.peer_address
        self._working: asyncio.Task[None] | None = None
        self._unanswered = 0
        self.is_stopping = False

    @property
    def are_answered(self) -> bool:
        """Whether every frame received on this connection has been answered: none is waiting for the log, and no answer
        is waiting to be sent."""
        return not (self._unanswered or self._acks or self._waiting)

    def received(self, body: Body) -> None:
        """Handles a message that contains frames. Raises BadMessage."""
        self._received(codec.decode(AppendRequest, body), len(body) if isinstance(body, bytearray) else 0)

    def received_message(self, request: AppendRequest) -> None:
        """Handles a message that a client in this process passed as an object. The message's bytes belong to the
        client, which counts them itself."""
        self._received(request, 0)

    def _received(self, request: AppendRequest, large_bytes: int) -> None:
        network_seconds = self._connection.large_seconds if large_bytes else 0.0
        arrival = new_arrival((self._loop.time(), network_seconds, *self._sender))
        if self._working is None and self._is_ready_for(request):
            self._take(request, {}, large_bytes, arrival)
            return
        self._waiting.append((request, large_bytes, arrival))  # holds at most what one receive call can read
        if self._working is None:
            self._connection.hold(TAKES)
            self._work()

    def end(self) -> None:
        """Stops work for a lost connection and discards any later answers."""
        if self._working is not None:
            self._working.cancel()

    # ------------------------------------------------------------------------------------------

    def _is_ready_for(self, request: AppendRequest) -> bool:
        """Returns whether the message can be submitted now, without waiting or looking anything up."""
        return self._bookie.intake.has_room and all(map(self._knows, _claims(request)))

    def _knows(self, frame: Frame) -> bool:
        """Returns whether the frame's proof, owner and verifier are known."""
        ledger_id, requests = frame.ledger_id, self._requests
        if not self._proofs.knows(ledger_id, frame.credential):
            return False
        if self._who.owner:
            assert requests.owners is not None
            if not requests.owners.knows(ledger_id, self._who.owner):
                return False
        return requests.verifiers is None or requests.verifiers.knows(frame)

    def _work(self) -> None:
        self._working = self._loop.create_task(self._take_waiting())
        self._working.add_done_callback(self._has_taken)

    async def _take_waiting(self) -> None:
        while self._waiting:
            request, large_bytes, arrival = self._waiting[0]
            unproven = await self._unproven(request)
            proven = [frame for frame in _claims(request) if frame.ledger_id not in unproven]
            unwelcome = await self._unwelcome(proven)
            self._waiting.popleft()
            self._take(request, {**unproven, **unwelcome}, large_bytes, arrival)

    async def _unproven(self, request: AppendRequest) -> Refused:
        """Refuses the first frame with an invalid proof and all later frames, because such a proof ends the stream."""
        every = request.every_frame
        for number, frame in enumerate(every):
            if not await self._proofs.may_append(frame.ledger_id, frame.credential):
                return {one.ledger_id: (Status.UNAUTHORIZED, "") for one in every[number:]}
        return {}

    async def _unwelcome(self, frames: Sequence[Frame]) -> Refused:
        """Waits until the log's queue has room, and refuses ledgers that this client may not write to."""
        others = await self._of_others([frame.ledger_id for frame in frames])
        verifiers = self._requests.verifiers
        while True:
            await self._bookie.intake.room()
            refused = await verifiers.refused(frames) if verifiers else {}
            if self._bookie.intake.has_room:
                return {**refused, **others}

    async def _of_others(self, ledger_ids: Sequence[int]) -> Refused:
        """Refuses ledgers of other owners if the client is restricted to the ledgers of one owner."""
        if not self._who.owner:
            return {}
        assert self._requests.owners is not None
        refused = await self._requests.owners.refused(ledger_ids, self._who.owner)
        for ledger_id, (_, why) in refused.items():
            self._who.record_audit(Act.REFUSED, why, ledger_id=ledger_id)
        return refused

    def _has_taken(self, task: asyncio.Task[None]) -> None:
        self._working = None
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self._connection.abort(f"the bookie failed: {error!r}")
            raise error
        if self._waiting:  # a message arrived after the task last checked
            self._work()
        else:
            self._connection.go_on(TAKES)

    def _take(self, request: AppendRequest, refused: Refused, large_bytes: int, arrival: Arrival) -> None:
        if large_bytes:
            self._memory.change(-large_bytes)  # from here on, the log's queue counts these bytes
        wrong = request.incarnation != self._bookie.incarnation
        for sequence, frame in enumerate(request.frames, request.first_sequence):
            self._unanswered += 1
            if wrong:
                why = f"this is incarnation {self._bookie.incarnation}"
                self._answer(sequence, Status.WRONG_INCARNATION, why)
            elif self._may_not:
                self._who.record_audit(Act.REFUSED, self._may_not, ledger_id=frame.ledger_id)
                self._answer(sequence, Status.UNAUTHORIZED, self._may_not)
            elif self.is_stopping:
                self._answer(sequence, Status.STOPPING, STOPPING)
            elif too_large(frame):
                self._answer(sequence, Status.BAD_REQUEST, TOO_LARGE)
            elif frame.ledger_id in refused:
                self._answer(sequence, *refused[frame.ledger_id])
            else:
                self._bookie.append(frame, partial(self._answer, sequence), arrival)
        if not (wrong or self._may_not or self.is_stopping):
            for frame in request.note_frames:
                if frame.ledger_id not in refused:
                    self._bookie.append_note(frame)

    def _answer(self, sequence: int, status: Status, detail: str) -> None:
        self._unanswered -= 1
        if status is not Status.OK:
            self._bookie.metrics.answered(RequestKind.APPEND, status)
        self._acks.append(new_ack((sequence, status, detail)))
        if not self._is_send_due:
            self._is_send_due = True
            self._bookie.answers.call_soon(self._send_acks)

    def _send_acks(self) -> None:
        """Sends, in one message, all acknowledgements that are ready."""
        self._is_send_due = False
        if not self._connection.is_writable and not self._connection.is_lost:
            return  # nothing is read from the connection until it is writable again
        acks, self._acks = tuple(self._acks), []
        self._connection.send_message(FrameKind.ACKS, new_reply((acks,)), _size_of, codec.encode)
        self._on_answered()

    def writable(self) -> None:
        """Sends the answers that were waiting."""
        if self._acks and not self._is_send_due:
            self._send_acks()


def _claims(request: AppendRequest) -> tuple[Frame, ...]:
    """Returns the frames to check against the metadata. A note about the end of a ledger is only informative, and is
    not checked."""
    if not request.note_frames:
        return request.frames
    return request.frames + tuple([frame._replace(note=NO_NOTE) for frame in request.note_frames])


def _size_of(reply: AppendReply) -> int:
    """Returns the approximate size of the message in bytes."""
    return sum([ACK_BYTES + len(ack.detail) for ack in reply.acks])
