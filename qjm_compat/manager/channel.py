"""The queue of one writer's calls to one acceptor, as a pure state machine: numbered, in order, bounded.

Calls that change the journal run one at a time and in order; batches are pipelined, because an acceptor processes them
in order. An acceptor that misses a batch is out of sync: it gets no further batches until it has begun a new segment.
`now` is the caller's clock, in seconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..config import JournalConfig
from ..errors import BadJournalState, JournalError, JournalOutOfSync, LoggerTooFarBehind
from ..requests import (
    FinalizeLogSegment,
    Heartbeat,
    Request,
    RequestInfo,
    SendEdits,
    StartLogSegment,
    WriterRequest,
)

QUEUED_CALLS_MAX = 100_000
"""Maximum number of calls queued for one acceptor. Batches reach their byte limit long before this limit."""


@dataclass(frozen=True, slots=True)
class SendCall:
    """Tells the caller to make the call now, after all earlier ones."""

    call: int
    request: Request[Any]


@dataclass(frozen=True, slots=True)
class Fail:
    """Reports that the call failed without being made."""

    call: int
    error: JournalError


ChannelEffect: TypeAlias = SendCall | Fail


@dataclass(slots=True)
class _QueuedCall:
    call: int
    request: Request[Any]
    size: int


class Channel:
    """One writer's queue of calls to one acceptor."""

    def __init__(self, name: str, config: JournalConfig) -> None:
        self.name = name
        self.epoch = 0
        self.is_out_of_sync = False
        self.committed_txid: int | None = None
        self.highest_acked_txid = 0
        self.queued_bytes = 0
        self._config = config
        self._serial = 0
        self._calls = 0
        self._waiting: deque[_QueuedCall] = deque()
        self._under_way: dict[int, _QueuedCall] = {}
        self._batches_under_way = 0
        self._heartbeat_at = float("-inf")

    @property
    def is_idle(self) -> bool:
        """Whether no call is queued or in flight."""
        return not self._waiting and not self._under_way

    @property
    def queued_calls(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def has_room(self, size: int) -> bool:
        """Returns whether a batch of this size would be accepted now."""
        return not self.queued_bytes or self.queued_bytes + size <= self._config.queued_edits_bytes_max

    def set_epoch(self, epoch: int) -> None:
        """Makes later calls carry this epoch."""
        self.epoch = epoch

    def set_committed(self, txid: int) -> None:
        """Sets the txid that a quorum has committed, which is sent with the next call."""
        if self.committed_txid is not None and txid < self.committed_txid:
            raise BadJournalState(f"committed txid cannot go back from {self.committed_txid} to {txid}")
        self.committed_txid = txid

    def submit(self, request: Request[Any], now: float) -> tuple[int, list[ChannelEffect]]:
        """Queues a call and returns its number. The call ends when `answered` or `failed` is called for it, or when a
        `Fail` effect is returned for it."""
        self._calls += 1
        call = self._calls
        size = len(request.records) if isinstance(request, SendEdits) else 0
        refusal = self._refusal(request, size)
        if refusal is not None:
            return call, [Fail(call, refusal)]
        self._waiting.append(_QueuedCall(call, request, size))
        self.queued_bytes += size
        return call, self._pump(now)

    def answered(self, call: int, now: float) -> list[ChannelEffect]:
        """Handles the answer to a call that succeeded."""
        done = self._over(call)
        if isinstance(done.request, StartLogSegment):
            self.is_out_of_sync = False
        elif isinstance(done.request, SendEdits) and done.request.num_txns:
            self.highest_acked_txid = max(self.highest_acked_txid, done.request.last_txid)
        return self._pump(now)

    def failed(self, call: int, now: float) -> list[ChannelEffect]:
        """Handles a call that the acceptor refused or did not answer. If it was a batch, the acceptor is now out of
        sync."""
        done = self._over(call)
        if isinstance(done.request, SendEdits):
            self.is_out_of_sync = True
        return self._pump(now)

    def _refusal(self, request: Request[Any], size: int) -> JournalError | None:
        """Returns the error for a call that may not be queued: the queue is full, or no epoch is set. If no other batch
        is queued, a batch may have any size."""
        limit = self._config.queued_edits_bytes_max
        if isinstance(request, WriterRequest) and self.epoch <= 0:
            return BadJournalState(f"bad epoch: {self.epoch}: create a new unique epoch first")
        too_many = self.queued_calls >= QUEUED_CALLS_MAX
        if too_many or (size and self.queued_bytes and self.queued_bytes + size > limit):
            return LoggerTooFarBehind(
                f"{self.queued_bytes} bytes are queued for {self.name}, which is too far behind; the limit is {limit}"
            )
        return None

    def _over(self, call: int) -> _QueuedCall:
        done = self._under_way.pop(call)
        self.queued_bytes -= done.size
        self._batches_under_way -= isinstance(done.request, SendEdits)
        return done

    def _pump(self, now: float) -> list[ChannelEffect]:
        """Sends the calls that may be sent now."""
        effects: list[ChannelEffect] = []
        while self._waiting and self._may_send(self._waiting[0].request):
            head = self._waiting.popleft()
            error = self._disabled(head.request)
            if error is not None:
                self.queued_bytes -= head.size
                effects += self._heartbeat(now)
                effects.append(Fail(head.call, error))
            else:
                self._under_way[head.call] = head
                self._batches_under_way += isinstance(head.request, SendEdits)
                effects.append(SendCall(head.call, self._numbered(head.request)))
        return effects

    def _may_send(self, request: Request[Any]) -> bool:
        if not self._under_way:
            return True
        if not isinstance(request, SendEdits) or len(self._under_way) >= self._config.pipelined_batches_max:
            return False
        return self._batches_under_way == len(self._under_way)

    def _disabled(self, request: Request[Any]) -> JournalError | None:
        if self.is_out_of_sync and isinstance(request, SendEdits | FinalizeLogSegment):
            return JournalOutOfSync(f"Journal {self.name} disabled until next roll: it missed a batch")
        return None

    def _heartbeat(self, now: float) -> list[ChannelEffect]:
        """Sends the committed txid to an out-of-sync acceptor periodically."""
        if now - self._heartbeat_at < self._config.heartbeat_seconds or self._under_way:
            return []
        self._heartbeat_at = now
        self._calls += 1
        beat = _QueuedCall(self._calls, Heartbeat(), 0)
        self._under_way[beat.call] = beat
        return [SendCall(beat.call, self._numbered(beat.request))]

    def _numbered(self, request: Request[Any]) -> Request[Any]:
        if not isinstance(request, WriterRequest):
            return request
        info = RequestInfo(self.epoch, self._serial, self.committed_txid)
        self._serial += 1
        return request.numbered(info)
