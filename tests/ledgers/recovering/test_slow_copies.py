"""How long a recovery waits for copies of what it wrote back, once an ack quorum has it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.in_process import QUICK, on_bookies

PATIENT = replace(QUICK, close_drain_seconds_max=3600.0, idle_lac_seconds=60.0, append_seconds_max=60.0)


async def never(*_: object, **__: object) -> None:
    await asyncio.Event().wait()


async def test_a_bookie_that_answers_nothing_keeps_no_recovery_waiting_and_the_record_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_bookies(tmp_path, 3, PATIENT) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
        await writer.append(b"told with the next one")
        await writer.append(b"told by nobody")
        await writer.abandon()
        hole = cluster.running["b3"].bookie
        monkeypatch.setattr(hole, "last_add_confirmed", never)
        monkeypatch.setattr(hole, "read", never)
        monkeypatch.setattr(hole, "append", lambda *_: None)
        async with asyncio.timeout(30):
            record = (await client.open_ledger(writer.ledger_id)).record
        assert record.last_entry == 1
        (fragment,) = record.fragments
        silent = next(n for n, one in enumerate(fragment.ensemble) if one.bookie_id == "b3")
        assert fragment.lacking_at(silent) is not None
        monkeypatch.undo()
