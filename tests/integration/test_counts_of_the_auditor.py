"""Of very many ledgers `cluster status` tells what the auditor has counted, and how old that is: real processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from bookledger.cli.processes import bookie_processes
from bookledger.cluster.survey import COUNTED_LEDGERS_MIN
from metadata import opened_store
from metadata.records.cluster import list_bookies
from metadata.records.ledger_ids import take_ledger_ids
from metadata.records.ledger_record import Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.ledger_store import LedgerStore
from tests.support.command_line import bookledger
from tests.support.waiting import until

COUNT = COUNTED_LEDGERS_MIN + 100
LEASE_SECONDS = 2.0
SECONDS_MAX = 60.0


def status(uri: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bookledger("cluster", "status", f"--metadata={uri}", "--json").stdout)
    return found


async def make_ledgers(uri: str) -> None:
    """Closed ones without entries, which every bookie has."""
    ended: dict[str, Any] = {"state": LedgerState.CLOSED, "last_entry": -1, "length_bytes": 0}
    async with opened_store(uri) as store:
        ensemble = tuple(one.bookie for one in await list_bookies(store))
        for ledger_id in await take_ledger_ids(store, COUNT):
            identity = ledger_id.to_bytes(16)
            fragments = (Fragment(0, ensemble),)
            record = LedgerRecord(
                ledger_id, Shape(3, 3, 2), fragments, created_ms=1, identity=identity, **ended
            )
            await LedgerStore(store).create(record)


def test_what_the_auditor_has_counted_is_told_also_by_the_one_that_takes_its_place(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri, lease_seconds=LEASE_SECONDS) as bookies:
        assert status(uri)["counted_seconds_ago"] == 0, "few ledgers are listed"
        asyncio.run(make_ledgers(uri))

        def is_counted() -> bool:
            seen = status(uri)
            assert sum(seen["ledgers"].values()) >= COUNT or seen["counted_seconds_ago"]
            return bool(seen["counted_seconds_ago"]) and seen["ledgers"] == {"closed": COUNT}

        until(is_counted, SECONDS_MAX)
        seen = status(uri)
        assert seen["whole"] and seen["fragments"] == {"whole": COUNT}
        text = bookledger("cluster", "status", f"--metadata={uri}").stdout.decode()
        assert f"{COUNT} closed (the auditor counted them" in text
        auditor = next(one for one in bookies if one.bookie_id == seen["auditor"])
        auditor.kill()
        alone = status(uri)
        assert alone["ledgers"] == {"closed": COUNT}, "counted before, or listed now"

        def counts_the_absent_one() -> bool:
            seen = status(uri)
            is_new = seen["auditor"] not in (None, auditor.bookie_id)
            return is_new and bool(seen["counted_seconds_ago"]) and seen["fragments"] == {"away": COUNT}

        until(counts_the_absent_one, SECONDS_MAX)
        auditor.start()
