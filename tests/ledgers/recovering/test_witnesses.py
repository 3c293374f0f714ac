"""Bookies outside a ledger's last ensemble are asked what they know of it (rule W8)."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bookie.wire import LacReply, LacRequest, Status
from ledgers.cluster import Cluster
from ledgers.errors import BookieUnavailable
from ledgers.integrity.digest import Crc32cDigester
from ledgers.integrity.ledger_keys import LedgerKey
from ledgers.recovering import witnesses
from ledgers.recovering.requests import LedgerRequests
from ledgers.recovering.witnesses import WITNESSES_AT_ONCE_MAX, Witnesses
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.registration import Registration
from tests.support.aio import until_true

DIGESTER = Crc32cDigester(7)
NAMED, FORMER, HOLDER, STRANGER, GONE = (
    BookieRef(name, "i") for name in ("named", "former", "holder", "stranger", "gone")
)
HUNG = tuple(BookieRef(f"hung-{n}", "i") for n in range(2 * WITNESSES_AT_ONCE_MAX))
RECORD = replace(
    LedgerRecord(7, Shape(1, 1, 1), (Fragment(0, (FORMER,)), Fragment(2, (NAMED,), 4))).in_recovery(),
    identity=b"\7" * 16,
)
HOLDS_IT = LacReply(Status.OK, DIGESTER.sign_lac(3, 8))
LACKS_IT = LacReply(Status.NO_SUCH_LEDGER)


class Here:
    """A cluster of these bookies; `asked`: in which order. `HOLDER` has the ledger to entry 3."""

    def __init__(self, *there: BookieRef) -> None:
        self._there = there
        self.asked: list[BookieRef] = []
        self.slow: list[BookieRef] = []

    def witnesses(self) -> Witnesses:
        async def now() -> Any:
            return SimpleNamespace(bookies=[Registration(one, "h:1") for one in self._there])

        cluster = SimpleNamespace(
            bookies=self,
            known_bookies=SimpleNamespace(now=now),
            rng=random.Random(7),
            note_slowness=self.slow.append,
            slow_or_failed_lately=lambda: frozenset(self.slow),
        )
        requests = LedgerRequests(RECORD, LedgerKey(7, b""), 1)
        return Witnesses(cast(Cluster, cluster), RECORD, requests)

    async def last_add_confirmed(self, bookie: BookieRef, request: LacRequest) -> LacReply:
        assert not request.fence, "who lacks the ledger is not to remember a fence for it"
        assert request.identity == RECORD.identity
        self.asked.append(bookie)
        if bookie == GONE:
            raise BookieUnavailable(str(bookie), "connection refused")
        if bookie in HUNG:
            await asyncio.Event().wait()
        return HOLDS_IT if bookie == HOLDER else LACKS_IT


async def test_everybody_else_is_asked_and_those_first_that_earlier_fragments_name() -> None:
    here = Here(NAMED, HOLDER, STRANGER, GONE, FORMER)
    assert await here.witnesses().ask() == {HOLDER: HOLDS_IT, STRANGER: LACKS_IT, FORMER: LACKS_IT}
    assert here.asked[0] == FORMER
    assert sorted(here.asked) == sorted((HOLDER, STRANGER, GONE, FORMER))
    assert here.slow == [GONE]


async def test_whoever_hangs_is_not_waited_for_and_asked_last_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(witnesses, "WITNESSES_SECONDS_MAX", 0.05)
    hung = HUNG[0]
    here = Here(hung, HOLDER)
    assert await here.witnesses().ask() == {HOLDER: HOLDS_IT}
    assert here.slow == [hung]
    here.asked.clear()
    await here.witnesses().ask()
    assert here.asked == [HOLDER, hung]


async def test_many_that_hang_keep_nobody_else_from_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnesses, "WITNESS_TURN_SECONDS", 0.01)
    monkeypatch.setattr(witnesses, "WITNESSES_SECONDS_MAX", 3600)
    here = Here(*HUNG, HOLDER, STRANGER)
    asking = asyncio.ensure_future(here.witnesses().ask())
    await until_true(lambda: _all_in(here.asked, HOLDER, STRANGER))
    asking.cancel()


async def _all_in(asked: list[BookieRef], *wanted: BookieRef) -> bool:
    return set(wanted) <= set(asked)


async def test_so_many_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnesses, "WITNESSES_SECONDS_MAX", 0.05)
    monkeypatch.setattr(witnesses, "WITNESS_TURN_SECONDS", 60)
    here = Here(*HUNG)
    assert await here.witnesses().ask() == {}
    assert len(here.asked) == len(here.slow) == WITNESSES_AT_ONCE_MAX
