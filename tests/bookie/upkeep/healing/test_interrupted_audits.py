"""An absence is counted as long as the auditor sees who lives, whatever else of its work fails (H3)."""

from __future__ import annotations

import asyncio

import pytest

from bookie.upkeep.healing import auditor
from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.peers import NoPeers
from bookie.upkeep_config import UpkeepConfig
from metadata import keys
from metadata.errors import StoreUnavailable
from metadata.healing.absent_bookies import list_absences
from metadata.records.cluster import Cookie
from metadata.records.ledger_record import BookieRef
from tests.support.aio import cancel, limited, until_true
from tests.support.faulty_store import FaultyStore


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
