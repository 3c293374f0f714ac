"""Makes calls to bookies about one ledger that is being recovered or salvaged. Each call is tried several times,
because giving up early would leave a ledger unusable, or miss a copy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from bookie.wire import (
    Columns,
    LacReply,
    LacRequest,
    LacStatement,
    ReadReply,
    ReadRequest,
    Status,
    status_text,
)
from bookie.wire.credentials import Purpose
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..cluster import Cluster
from ..errors import BookieUnavailable
from ..integrity.ledger_keys import LedgerKey
from ..ledger_access import Keys
from ..protocol.fenced_reads import Replica
from .held_copies import Gap, HeldCopies

Reply = TypeVar("Reply")


class LedgerCalls:
    """Makes calls with the ledger's identity and the credential that the ledger requires. Each call raises
    BookieUnavailable when the last of `recovery_tries_max` attempts fails. With `fence`, a bookie that has answered
    refuses requests of the ledger's writer."""

    def __init__(self, cluster: Cluster, record: LedgerRecord, key: LedgerKey, *, fence: bool) -> None:
        self._cluster = cluster
        self._record = record
        self._key = key
        self._fence = fence

    async def last_add_confirmed(self, bookie: BookieRef) -> LacReply:
        ledger_id, identity = self._record.ledger_id, self._record.identity
        credential = self._key.credential(self._purpose, bookie.incarnation)
        request = LacRequest(
            bookie.incarnation, ledger_id, fence=self._fence, credential=credential, identity=identity
        )
        return await self._with_tries(lambda: self._cluster.fence(bookie, request))

    async def page(self, bookie: BookieRef, first_entry: int, last_entry: int) -> ReadReply:
        """Returns the first page of the requested entries."""
        request = ReadRequest(
            bookie.incarnation,
            self._record.ledger_id,
            first_entry,
            last_entry,
            self._cluster.config.page_bytes,
            fence=self._fence,
            credential=self._key.credential(self._purpose, bookie.incarnation),
            identity=self._record.identity,
        )
        return await self._with_tries(lambda: self._cluster.read(bookie, request))

    @property
    def _purpose(self) -> Purpose:
        return Purpose.FENCE if self._fence else Purpose.READ

    async def _with_tries(self, call: Callable[[], Awaitable[Reply]]) -> Reply:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(BookieUnavailable),
            stop=stop_after_attempt(self._cluster.config.recovery_tries_max),
            wait=wait_random_exponential(multiplier=0.1, max=1.0),
            reraise=True,
        ):
            with attempt:
                return await call()
        raise AssertionError("a retry ends with an answer or an error")


class Holders:
    """Bookies that are asked for their copies of a ledger, whatever a quorum can prove.

    `silent` lists the bookies that did not answer, or that stopped answering at some entry, each with the reason.
    `proven_through`: the last entry that is proven to be confirmed by the record or by one of the bookies.
    """

    def __init__(self, cluster: Cluster, record: LedgerRecord, keys: Keys, *, fence: bool) -> None:
        self.record = record
        self.silent: dict[str, str] = {}
        self.proven_through = record.confirmed_through
        self._cluster = cluster
        self._digester, key = keys
        self._calls = LedgerCalls(cluster, record, key, fence=fence)
        self._refs: dict[str, BookieRef] = {}

    async def _ask_lac(self, bookie: BookieRef) -> None:
        self._refs[bookie.bookie_id] = bookie
        try:
            reply = await self._calls.last_add_confirmed(bookie)
        except BookieUnavailable as error:
            self.silent[bookie.bookie_id] = error.why
            return
        if reply.status in (Status.OK, Status.NO_SUCH_LEDGER, Status.UNKNOWN):
            self._note_lac(reply.last_add_confirmed)
            self._heard(bookie, reply)
        else:
            self._refused(bookie, reply, status_text(reply))

    def _note_lac(self, statement: LacStatement | None) -> None:
        if statement is not None and not self.record.is_closed and self._digester.is_valid_lac(statement):
            self.proven_through = max(self.proven_through, statement.last_entry)

    def _heard(self, bookie: BookieRef, reply: LacReply) -> None:
        """Hook for subclasses that need more of the bookie's answer. May raise LedgerError."""

    def _refused(self, bookie: BookieRef, reply: LacReply | ReadReply, why: str) -> None:
        """Hook for subclasses that treat a bookie's refusal differently. May raise LedgerError."""
        del reply
        self.silent[bookie.bookie_id] = why

    def _unless_silent(self, replicas: list[Replica]) -> list[Replica]:
        """Returns the replicas, after marking those of silent bookies as failed."""
        for one in replicas:
            one.failure = self.silent.get(one.name, "")
        return replicas

    async def _walk(self, copies: HeldCopies) -> AsyncGenerator[Columns | Gap, None]:
        """Yields everything that the bookies have, in order and without repetition: verified entries, and the gaps
        between them."""
        while (step := copies.step()) is not None:
            if isinstance(step, Replica):
                await self._read(step, copies.last_entry)
            else:
                yield step

    async def _read(self, replica: Replica, last_entry: int) -> None:
        bookie, further = self._refs[replica.name], f" (from entry {replica.asked_from} on)"
        try:
            reply = await self._calls.page(bookie, replica.asked_from, last_entry)
        except BookieUnavailable as error:
            replica.failed(error.why)
            self.silent[replica.name] = error.why + further
            return
        replica.answered(reply, self._digester)
        if replica.failure:
            self._refused(bookie, reply, replica.failure + further)
        else:
            self._note_lac(reply.last_add_confirmed)
