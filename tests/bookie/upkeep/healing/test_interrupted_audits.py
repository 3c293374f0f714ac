"""An absence is counted as long as the auditor sees who lives, whatever else of its work fails (H3)."""

from __future__ import annotations

import asyncio

import pytest

from bookie.upkeep.healing import auditor
from bookie.upkeep.healing.auditor import Auditor, NoLongerAuditor
from bookie.upkeep.healing.cluster_view import ClusterView
from bookie.upkeep.repair_client import NoPeers
from bookie.upkeep_config import UpkeepConfig
from metadata import keys
from metadata.errors import StoreUnavailable
from metadata.healing.absent_bookies import list_absences
from metadata.records.cluster import Cookie
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from tests.support.aio import cancel, limited, until_true
from tests.support.faulty_store import FaultyStore
from tests.support.present import there


async def test_an_absence_counts_on_where_another_part_of_each_look_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auditor, "LOOK_SECONDS", 0.005)
    store = FaultyStore()
    cookie = Cookie("cluster", "b2", "i2")
    await store.create(keys.cookie("b2"), cookie.encode())
    store.fail(StoreUnavailable("away"), calls=("list_page",), keys=keys.LOGS)
    one = Auditor(store, BookieRef("b1", "i1"), UpkeepConfig(), lambda: 0.0, NoPeers())

    async def is_counted() -> bool:
        return any(absence.absent_ms > 50 for absence in await list_absences(store))

    running = asyncio.create_task(one.run())
    await limited(until_true(is_counted), 20)
    await cancel(running)
    assert store.failures > 1


async def test_the_office_is_kept_while_an_audit_goes_on_and_without_it_the_audit_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An audit of a million ledgers takes longer than the lease: it was lost each time, and began again."""
    store = FaultyStore()
    ledgers = LedgerStore(store)
    for ledger_id in range(3):
        await ledgers.create(
            LedgerRecord(ledger_id, Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i1"),)),))
        )
    one = Auditor(store, BookieRef("b1", "i1"), UpkeepConfig(), lambda: 0.0, NoPeers())
    assert await one._is_elected()
    renewed = list[float]()
    renew = one._held.renew

    async def counted() -> bool:
        renewed.append(one._held.age_seconds)
        return await renew()

    one._held.renew = counted  # type: ignore[method-assign]
    assert (await one.audit(ClusterView(1))).ledgers.total() == 3 and not renewed
    monkeypatch.setattr(auditor, "LOOK_SECONDS", 0.0)
    await one.audit(ClusterView(1))
    assert len(renewed) == 3
    office = there(await store.get(keys.AUDITOR))
    await store.delete(keys.AUDITOR, office.version)
    with pytest.raises(NoLongerAuditor, match="another bookie is the auditor"):
        await one.audit(ClusterView(1))
