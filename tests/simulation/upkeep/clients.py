"""Writers, recoverers and readers of one life of the bookie, and the promises that its answers are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bookie.serving.lookups.verifiers import Verifiers
from bookie.storage.bookie import Bookie
from bookie.wire.columnar_entries import NO_ENTRIES
from bookie.wire.messages import Credential, Frame, ReadRequest, Status
from metadata.records.ledger_record import LedgerRecord, LedgerState
from metadata.records.ledger_store import LedgerStore
from tests.bookie.entries import columns_of, lac_of
from tests.bookie.logs import INCARNATION
from tests.simulation.engine.world import Violation

from .ledgers import ME, Ledger, is_placed, joined
from .looks import LAST, judge
from .plan import Append, Fence, Read
from .probes import UpkeepProbe
from .site import Site


class Clients:
    """Whoever comes to one bookie."""

    def __init__(self, site: Site, bookie: Bookie, ledgers: LedgerStore) -> None:
        self._site = site
        self._bookie = bookie
        self._verifiers = Verifiers(bookie, ledgers)

    # --- appends --------------------------------------------------------------------------------

    async def append(self, step: Append) -> None:
        ledger = self._site.ledgers.of(step.ledger)
        ids = _ids(ledger, step)
        if ids or (step.lac and not step.entries and ME in ledger.record.fragments[-1].ensemble):
            with _busy(ledger):
                await self._append(step, ledger, ids)

    async def _append(self, step: Append, ledger: Ledger, ids: list[int]) -> None:
        is_open_here = ledger.is_listed and ledger.is_named and not ledger.record.is_closed
        is_excused = ledger.state_excused and not is_open_here  # limbo fences what is open
        was_fenced, was_gone = ledger.is_fenced and not is_excused, ledger.is_gone and ledger.busy == 1
        was_compacting = self._site.under_way["emptying"]
        lac = max(ledger.held, default=-1) if step.lac and not step.recovery else -1
        status = await self._sent(step, ledger, ids, lac)
        self._site.note("%s of %s: %s", ids, ledger.ledger_id, status)
        if status is Status.IO_ERROR and self._bookie.failed.done():
            status = None
        _check_status(step, ledger, status, was_fenced=was_fenced, was_gone=was_gone)
        if status in (Status.UNAUTHORIZED, Status.FENCED) and was_gone:
            self._site.reached(UpkeepProbe.LATE_WRITER)
        if status is Status.OK:
            ledger.held.update(ids)
            ledger.lac = max(ledger.lac, lac)
            if was_compacting:
                self._site.reached(UpkeepProbe.APPEND_WHILE_COMPACTING)

    async def _sent(self, step: Append, ledger: Ledger, ids: list[int], lac: int) -> Status | None:
        """None where the process ended before it was answered."""
        ledger_id = ledger.ledger_id
        refused = await self._verifiers.refused([Frame(ledger_id)])
        if refused:
            return refused[ledger_id][0]
        ledger.sent.update(ids)
        entries = [self._site.ledgers.entry(ledger_id, n, self._site.plan.sizes.payload) for n in ids]
        frame = Frame(
            ledger_id,
            columns_of(entries) if entries else NO_ENTRIES,
            lac_of(lac) if lac >= 0 else None,
            step.recovery,
            Credential(ledger.record.verifier),
            step.deferred,
        )
        answered: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self._bookie.append(frame, lambda status, _: answered.set_result(status))
        return await self._answer_or_end(answered)

    async def _answer_or_end(self, answered: asyncio.Future[Status]) -> Status | None:
        either: list[asyncio.Future[Any]] = [answered, self._bookie.failed]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return answered.result() if answered.done() else None

    # --- fences ---------------------------------------------------------------------------------

    async def fence(self, step: Fence) -> None:
        ledger = self._site.ledgers.of(step.ledger)
        with _busy(ledger):
            if await self._verifiers.refused([Frame(step.ledger)]):
                return
            ledger.may_be_fenced = True
            fenced = asyncio.ensure_future(self._bookie.fence(step.ledger, ledger.record.verifier))
            either: list[asyncio.Future[Any]] = [fenced, self._bookie.failed]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not fenced.done():
                fenced.cancel()
            elif fenced.result()[0] is Status.OK:
                ledger.is_fenced = True

    # --- reads ----------------------------------------------------------------------------------

    async def read(self, step: Read) -> None:
        ledger = self._site.ledgers.of(step.ledger)
        owed = set(ledger.owed)
        request = ReadRequest(INCARNATION, step.ledger, step.first, LAST, step.bytes_max)
        was_in_limbo = self._bookie.states.peek(step.ledger).limbo
        reply = await self._bookie.read(request)
        if ledger.is_deleted:
            return
        self._site.ledgers.look()
        if reply.status not in (Status.OK, Status.NO_SUCH_LEDGER):
            raise Violation("R6", f"a read of ledger {step.ledger} is answered with {reply.status}")
        asked = range(step.first, reply.covered_through + 1)
        owed = {n for n in owed & ledger.owed if n in asked}
        judge(self._site, "a read", ledger, reply.columns, reply.damaged, owed, is_in_limbo=was_in_limbo)


def _ids(ledger: Ledger, step: Append) -> list[int]:
    """Those of the step's entries that a client may send here, by the record that it knows."""
    record = _writable(ledger, step)
    if record is None or ME not in record.fragments[-1].ensemble:
        return []
    start = max(step.first, record.fragments[-1].first_entry)
    return [n for n in range(start, step.first + step.entries) if is_placed(record, n)]


def _writable(ledger: Ledger, step: Append) -> LedgerRecord | None:
    record = ledger.record
    if step.recovery:
        if record.state is not LedgerState.IN_RECOVERY:
            return None
        return replace(record, fragments=(*record.fragments[:-1], joined(record)))
    is_late = ledger.is_deleted and record.is_closed  # whoever writes on after a deletion
    return record if record.state is LedgerState.OPEN or is_late else None


@contextmanager
def _busy(ledger: Ledger) -> Iterator[None]:
    ledger.touched += 1
    ledger.busy += 1
    try:
        yield
    finally:
        ledger.touched += 1
        ledger.busy -= 1


def _check_status(
    step: Append, ledger: Ledger, status: Status | None, *, was_fenced: bool, was_gone: bool
) -> None:
    what = f"an append to ledger {ledger.ledger_id} is answered with {status}"
    match status:
        case Status.OK | Status.WRITTEN:
            if was_gone:
                raise Violation("B3", f"{what}, and the ledger was deleted and forgotten")
            if was_fenced and not step.recovery and not ledger.is_deleted:
                raise Violation("R1", f"{what}, and it was fenced")
        case Status.FENCED:
            if step.recovery or not (ledger.may_be_fenced or ledger.is_deleted):
                raise Violation("R1", f"{what}, and nobody fenced it")
        case Status.UNAUTHORIZED:
            if not ledger.is_deleted and ledger.is_listed:
                raise Violation("owner", what)
        case Status.UNKNOWN | None:
            pass  # the metadata did not answer, or the process is gone
        case _:
            raise Violation("status", what)
