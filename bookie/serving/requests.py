"""What a bookie answers, whatever the protocol it is asked by. Refusals are statuses in the reply."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Protocol

from metadata.records.cluster import Cookie

from ..storage.bookie import Bookie
from ..wire.columns import ENTRY_BYTES_MAX, FRAME_ENTRIES_MAX
from ..wire.credentials import Purpose, statement
from ..wire.messages import (
    Credential,
    Frame,
    HoldingsReply,
    HoldingsRequest,
    InfoReply,
    LacReply,
    LacRequest,
    ReadReply,
    ReadRequest,
    Status,
)
from .verifiers import Verifiers

LONG_POLL_SECONDS_MAX = 60.0

TOO_LARGE = f"over the limit of {ENTRY_BYTES_MAX} bytes an entry or {FRAME_ENTRIES_MAX} entries a frame"


class Proofs(Protocol):
    """Checks what one peer brings."""

    async def is_proven(self, credential: Credential, signed: bytes) -> bool:
        """Whether the proof fits its verifier; a blank credential proves what it claims, nothing."""
        ...


class Requests:
    """Answers for one bookie."""

    def __init__(
        self,
        bookie: Bookie,
        cookie: Cookie,
        directory: Path,
        version: str,
        verifiers: Verifiers | None = None,
    ) -> None:
        self.bookie = bookie
        self.verifiers = verifiers
        self._cookie = cookie
        self._directory = directory
        self._version = version

    @property
    def bookie_id(self) -> str:
        return self._cookie.bookie_id

    async def read(self, request: ReadRequest, proofs: Proofs) -> ReadReply:
        if request.incarnation != self.bookie.incarnation:
            return ReadReply(Status.WRONG_INCARNATION, detail=self._who_we_are())
        if request.fence and (why := await self._refuses_fence(request, proofs)):
            return ReadReply(why[0], detail=why[1])
        return await self.bookie.read(request)

    async def last_add_confirmed(
        self, request: LacRequest, proofs: Proofs, hurried: asyncio.Future[None] | None = None
    ) -> LacReply:
        """Waits no longer than until `hurried` is done."""
        if request.incarnation != self.bookie.incarnation:
            return LacReply(Status.WRONG_INCARNATION, detail=self._who_we_are())
        if request.ledger_id < 0 or request.wait_ms > LONG_POLL_SECONDS_MAX * 1000:
            return LacReply(
                Status.BAD_REQUEST, detail=f"ledger {request.ledger_id}, wait {request.wait_ms} ms"
            )
        if request.fence and (why := await self._refuses_fence(request, proofs)):
            return LacReply(why[0], detail=why[1])
        return await self.bookie.last_add_confirmed(request, hurried)

    async def holdings(self, request: HoldingsRequest) -> HoldingsReply:
        if request.incarnation != self.bookie.incarnation:
            return HoldingsReply(Status.WRONG_INCARNATION, detail=self._who_we_are())
        return await self.bookie.holdings(request)

    async def info(self) -> InfoReply:
        disk = os.statvfs(self._directory)
        return InfoReply(
            bookie_id=self._cookie.bookie_id,
            incarnation=self._cookie.incarnation,
            cluster_id=self._cookie.cluster_id,
            version=self._version,
            disk_bytes_total=disk.f_blocks * disk.f_frsize,
            disk_bytes_free=disk.f_bavail * disk.f_frsize,
            entries_added=self.bookie.counters.entries_added,
            bytes_added=self.bookie.counters.bytes_added,
            syncs=self.bookie.syncs,
            read_only=bool(self.bookie.space.why_read_only),
        )

    async def _refuses_fence(
        self, request: ReadRequest | LacRequest, proofs: Proofs
    ) -> tuple[Status, str] | None:
        ledger_id = request.ledger_id
        signed = statement(Purpose.FENCE, ledger_id, self.bookie.incarnation)
        if not await proofs.is_proven(request.credential, signed):
            return Status.UNAUTHORIZED, ""
        refused = await self.verifiers.refused([ledger_id]) if self.verifiers else {}
        return refused.get(ledger_id)

    def _who_we_are(self) -> str:
        return f"this is incarnation {self.bookie.incarnation} of {self._cookie.bookie_id}"


def too_large(frame: Frame) -> bool:
    """Whether the frame or some entry of it is over its limit; a small frame is not looked into."""
    columns = frame.columns
    if len(columns) > FRAME_ENTRIES_MAX:
        return True
    return len(columns.payload) > ENTRY_BYTES_MAX and max(columns.sizes) > ENTRY_BYTES_MAX
