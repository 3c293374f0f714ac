"""Bookies outside a ledger's last ensemble are asked what they have of it (rule W8)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bookie.wire import LacReply, LacRequest, Status
from ledgers.cluster import Cluster
from ledgers.errors import BookieUnavailable, LedgerRecoveryFailed
from ledgers.integrity.digest import Crc32cDigester
from ledgers.integrity.ledger_keys import LedgerKey
from ledgers.recovering import witnesses
from ledgers.recovering.witnesses import Witnesses
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.registration import Registration
from tests.support.aio import run

DIGESTER = Crc32cDigester(7)
NAMED, HOLDER, STRANGER, GONE, HUNG = (BookieRef(f"b{n}", "i") for n in range(5))
RECORD = replace(LedgerRecord(7, Shape(1, 1, 1), (Fragment(0, (NAMED,)),)).in_recovery(), identity=b"\7" * 16)


class Bookies:
    """`HOLDER` has the ledger to entry 3; it is noted who is asked."""

    def __init__(self) -> None:
        self.asked: list[BookieRef] = []

    async def last_add_confirmed(self, bookie: BookieRef, request: LacRequest) -> LacReply:
        assert not request.fence, "who lacks the ledger is not to remember a fence for it"
        self.asked.append(bookie)
        if bookie == GONE:
            raise BookieUnavailable(str(bookie), "connection refused")
        if bookie == HUNG:
            await asyncio.Event().wait()
        if bookie == HOLDER:
            return LacReply(Status.OK, DIGESTER.sign_lac(3, 8))
        return LacReply(Status.NO_SUCH_LEDGER)


def asked(record: LedgerRecord, *there: BookieRef) -> tuple[Witnesses, Bookies]:
    bookies = Bookies()

    async def now() -> Any:
        return SimpleNamespace(bookies=[Registration(one, "h:1") for one in there])

    cluster = cast(Cluster, SimpleNamespace(bookies=bookies, known_bookies=SimpleNamespace(now=now)))
    return Witnesses(cluster, record, DIGESTER, LedgerKey(7, b"")), bookies


def test_who_holds_the_ledger_is_read_from_and_nobody_else() -> None:
    async def scenario() -> None:
        found, bookies = asked(RECORD, NAMED, HOLDER, STRANGER, GONE)
        assert await found.ask() == [HOLDER]
        assert sorted(bookies.asked) == [HOLDER, STRANGER, GONE]

    run(scenario())


def test_of_a_ledger_without_an_identity_nothing_is_read_and_what_is_proven_counts() -> None:
    async def scenario() -> None:
        found, _ = asked(replace(RECORD, identity=b""), HOLDER)
        assert await found.ask() == []
        with pytest.raises(LedgerRecoveryFailed, match="proves that entry 3 was confirmed"):
            await found.check(2)
        await found.check(3)

    run(scenario())


def test_whoever_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnesses, "WITNESS_SECONDS_MAX", 0.05)

    async def scenario() -> None:
        found, _ = asked(RECORD, HUNG, HOLDER)
        assert await found.ask() == [HOLDER]
        await found.check(3)

    run(scenario())
