"""Authorizes and answers a bookie's requests, independently of the protocol. Refusals are reported as statuses in the
reply."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from metadata.records.cluster import Cookie

from ..errors import BookieError
from ..program_version import interpreter
from ..storage.bookie import Bookie
from ..wire.columnar_entries import ENTRY_BYTES_MAX, FRAME_ENTRIES_MAX
from ..wire.credentials import Purpose, statement
from ..wire.messages import (
    NO_CREDENTIAL,
    Credential,
    Frame,
    HoldingsReply,
    HoldingsRequest,
    InfoReply,
    LacReply,
    LacRequest,
    NotesReply,
    NotesRequest,
    ReadReply,
    ReadRequest,
    Status,
)
from .lookups.owners import Owners
from .lookups.registered_keys import RegisteredKeys
from .lookups.verifiers import Verifiers

LONG_POLL_SECONDS_MAX = 60.0

TOO_LARGE = f"over the limit of {ENTRY_BYTES_MAX} bytes per entry or {FRAME_ENTRIES_MAX} entries per frame"

HAS_A_PASSWORD = "the ledger has a password, and the request does not prove knowledge of it"


class Proofs(Protocol):
    """Verifies the proofs that one peer presents."""

    async def may_read(self, ledger_id: int, credential: Credential) -> bool:
        """Returns whether the credential is valid for reading this ledger."""
        ...

    async def is_proven(self, credential: Credential, signed: bytes) -> bool:
        """Returns whether the proof matches its verifier; a blank credential claims nothing and is always accepted."""
        ...


class RequestProcessor:
    """Answers requests for one bookie."""

    def __init__(
        self,
        bookie: Bookie,
        cookie: Cookie,
        directory: Path,
        version: str,
        verifiers: Verifiers | None = None,
        bookie_keys: RegisteredKeys | None = None,
        owners: Owners | None = None,
        vouched_since: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self.bookie = bookie
        self.verifiers = verifiers
        self.owners = owners
        self._bookie_keys = bookie_keys
        self._cookie = cookie
        self._directory = directory
        self._version = version
        self._vouched_since = vouched_since

    @property
    def bookie_id(self) -> str:
        return self._cookie.bookie_id

    async def read(self, request: ReadRequest, proofs: Proofs) -> ReadReply:
        if request.incarnation != self.bookie.incarnation:
            return ReadReply(Status.WRONG_INCARNATION, detail=self._who_we_are())
        if why := await self._refuses(request, proofs):
            return ReadReply(why[0], detail=why[1])
        reply = await self.bookie.read(request)
        if why := await self._refuses_now(request, proofs, reply.status):
            return ReadReply(why[0], detail=why[1])
        return reply

    async def last_add_confirmed(
        self, request: LacRequest, proofs: Proofs, hurried: asyncio.Future[None] | None = None
    ) -> LacReply:
        """Returns the last-add-confirmed, after a long poll if requested; `hurried` ends the poll early."""
        if request.incarnation != self.bookie.incarnation:
            return LacReply(Status.WRONG_INCARNATION, detail=self._who_we_are())
        if request.ledger_id < 0 or request.wait_ms > LONG_POLL_SECONDS_MAX * 1000:
            return LacReply(
                Status.BAD_REQUEST, detail=f"ledger {request.ledger_id}, wait {request.wait_ms} ms"
            )
        if why := await self._refuses(request, proofs):
            return LacReply(why[0], detail=why[1])
        reply = await self.bookie.last_add_confirmed(request, hurried)
        if why := await self._refuses_now(request, proofs, reply.status):
            return LacReply(why[0], detail=why[1])
        if request.fence and self._vouched_since is not None:
            if self.verifiers is not None:
                await self.verifiers.look(request.ledger_id)
            latest = self.bookie.index.notes.latest(request.ledger_id)
            return replace(reply, vouched_since=await self._vouched_since(), latest=latest)
        return reply

    async def holdings(self, request: HoldingsRequest) -> HoldingsReply:
        if request.incarnation != self.bookie.incarnation:
            return HoldingsReply(Status.WRONG_INCARNATION, detail=self._who_we_are())
        return await self.bookie.holdings(request)

    async def notes(self, request: NotesRequest) -> NotesReply:
        """Returns a page of the bookie's notes about ledgers. A request for the first page makes a checkpoint
        first, so that the pages include every note that arrived before the request."""
        if request.incarnation != self.bookie.incarnation:
            return NotesReply(Status.WRONG_INCARNATION, detail=self._who_we_are())
        try:
            if request.is_first:
                # Frames in progress count, too: those that wait for the disk may soon be acknowledged, and those being
                # looked up may soon wait for the disk.
                if self.verifiers is not None:
                    self.verifiers.look_again()
                await self.bookie.intake.settled(self.bookie.failed)
                await self.bookie.checkpoint()
            notes = self.bookie.index.notes
            page = asyncio.to_thread(notes.page, request.first_ledger, request.first_entry)
            return NotesReply(Status.OK, *await page)
        except BookieError as error:
            return NotesReply(Status.IO_ERROR, detail=str(error))

    async def info(self) -> InfoReply:
        disk = os.statvfs(self._directory)
        return InfoReply(
            bookie_id=self._cookie.bookie_id,
            incarnation=self._cookie.incarnation,
            cluster_id=self._cookie.cluster_id,
            version=self._version,
            interpreter=interpreter(),
            disk_bytes_total=disk.f_blocks * disk.f_frsize,
            disk_bytes_free=disk.f_bavail * disk.f_frsize,
            entries_added=self.bookie.metrics.counters.entries_added,
            bytes_added=self.bookie.metrics.counters.bytes_added,
            syncs=self.bookie.syncs,
            read_only=bool(self.bookie.space.why_read_only),
            **self.bookie.metrics.info_fields(),
        )

    async def _refuses(self, request: ReadRequest | LacRequest, proofs: Proofs) -> tuple[Status, str] | None:
        if request.fence:
            return await self._refuses_fence(request, proofs)
        return await self._refuses_reading(request, proofs)

    async def _refuses_reading(
        self, request: ReadRequest | LacRequest, proofs: Proofs
    ) -> tuple[Status, str] | None:
        """Authorizes reads of a password-protected ledger: by proof of the password, or by the key of a live bookie."""
        ledger_id, credential = request.ledger_id, request.credential
        verifier = self.bookie.readers_verifier(ledger_id) if ledger_id >= 0 else b""
        if not verifier:
            return None
        if credential == NO_CREDENTIAL or not await proofs.may_read(ledger_id, credential):
            return Status.UNAUTHORIZED, HAS_A_PASSWORD
        if hmac.compare_digest(credential.verifier, verifier):
            return None
        if self._bookie_keys is not None and await self._bookie_keys.hold(credential.verifier):
            return None
        return Status.UNAUTHORIZED, HAS_A_PASSWORD

    async def _refuses_now(
        self, request: ReadRequest | LacRequest, proofs: Proofs, status: Status
    ) -> tuple[Status, str] | None:
        """Checks again, before the reply, whether the read is authorized: the verifier may have arrived with the
        ledger's first frame since the first check."""
        if request.fence or status is not Status.OK:
            return None
        return await self._refuses_reading(request, proofs)

    async def _refuses_fence(
        self, request: ReadRequest | LacRequest, proofs: Proofs
    ) -> tuple[Status, str] | None:
        ledger_id = request.ledger_id
        signed = statement(Purpose.FENCE, ledger_id, self.bookie.incarnation)
        if not await proofs.is_proven(request.credential, signed):
            return Status.UNAUTHORIZED, ""
        refused = await self.verifiers.refused([Frame(ledger_id)]) if self.verifiers else {}
        return refused.get(ledger_id)

    def _who_we_are(self) -> str:
        return f"this is incarnation {self.bookie.incarnation} of {self._cookie.bookie_id}"


def too_large(frame: Frame) -> bool:
    """Returns whether the frame has too many entries, or an entry that is too large; inspects the entries of large
    frames only."""
    columns = frame.columns
    if len(columns) > FRAME_ENTRIES_MAX:
        return True
    return len(columns.payload) > ENTRY_BYTES_MAX and max(columns.sizes) > ENTRY_BYTES_MAX
