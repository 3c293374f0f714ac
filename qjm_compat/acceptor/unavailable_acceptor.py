"""Stands in for an acceptor whose cluster cannot be opened, because a journal works as long as a majority of its
acceptors can be opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..errors import JournalUnavailable
from ..requests import BatchDone, R, RemoteEditLog, Request, SendEdits
from .copying import Pace, SegmentContent, SegmentReader
from .programs.sync_programs import SegmentsHeld, SyncOutcome


class AbsentAcceptor:
    """Fails every call with the error that occurred when the acceptor was opened. Reopen the manager to retry."""

    def __init__(self, name: str, why: Exception) -> None:
        self.name = name
        self._why = why

    async def call(self, request: Request[R]) -> R:  # noqa: ARG002 — the interface's arguments, here and below
        raise self._unavailable()

    def begin(self, request: SendEdits, done: BatchDone) -> bool:  # noqa: ARG002
        return False

    async def read_segment(
        self,
        start_txid: int,  # noqa: ARG002
        from_txid: int,  # noqa: ARG002
        *,
        in_progress_ok: bool = True,  # noqa: ARG002
    ) -> SegmentContent:
        raise self._unavailable()

    async def segments_held(self) -> SegmentsHeld:
        raise self._unavailable()

    async def make_room_for_another(self, epochs_above: int) -> SegmentsHeld:  # noqa: ARG002
        raise self._unavailable()

    async def purged_below(self) -> int:
        raise self._unavailable()

    async def take_finalized(
        self,
        wanted: RemoteEditLog,  # noqa: ARG002
        source: SegmentReader,  # noqa: ARG002
        pace: Pace,  # noqa: ARG002
        is_wanted: Callable[[], Awaitable[bool]],  # noqa: ARG002
    ) -> SyncOutcome:
        raise self._unavailable()

    async def close(self) -> None:
        """Does nothing, because nothing was opened."""

    def _unavailable(self) -> JournalUnavailable:
        return JournalUnavailable(f"acceptor {self.name} could not be opened: {self._why}")
