"""What `metadata check` tells of bookies that tell nothing, and of those that were away when it was accepted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from bookledger.cli.metadata.note_comparison import compare_notes, rebuild_records
from metadata import keys
from metadata.backup import hold
from metadata.records import directory_generations
from metadata.records.directory_generations import Life
from metadata.records.ledger_record import BookieRef
from tests.support.command_line import bookledger
from tests.support.in_process import on_bookies


async def test_a_bookie_that_is_silent_is_named_and_not_said_to_have_been_there(tmp_path: Path) -> None:
    """Once it is back it compares by itself."""
    async with on_bookies(tmp_path, 2) as (cluster, client):
        await (await client.create_ledger(ensemble_size=2, ack_quorum=2)).append(b"noted")
        registered = await cluster.store.get(keys.bookie("b2"))
        assert registered is not None
        await cluster.stop("b2")
        await cluster.store.create(registered.key, registered.value)
        compared = await asyncio.to_thread(compare_notes, cluster.uri)
        assert list(compared.seen.silent) == ["b2"] and compared.fits
        assert "Bookie b2 did not report its notes (" in compared.what_will_be
        made = await asyncio.to_thread(rebuild_records, cluster.uri)
        assert (made.ledgers, made.chains, sorted(map(str, made.heard))) == (0, [], ["b1"])


async def test_a_bookie_that_waits_is_told_until_it_is_accepted_with_what_it_has_noted(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, _):
        await hold.begin(cluster.store, backup_ms=0, now_ms=1)
        assert await hold.accept(cluster.store, [BookieRef("b9", "another")])
        acceptance = await hold.accepted(cluster.store)
        assert acceptance is not None
        me = "b1", cluster.running["b1"].bookie.incarnation
        life = await directory_generations.read(cluster.store, *me)
        back = Life(life.number, life.position, life.renewals, returned=acceptance.number)
        await directory_generations.write(cluster.store, *me, back)

        async def check(*options: str) -> tuple[int, bytes]:
            done = await asyncio.to_thread(
                bookledger, "metadata", "check", f"--metadata={cluster.uri}", *options
            )
            return done.returncode, done.stdout

        code, told = await check()
        assert code == 1 and b"b1 came back after older metadata was accepted" in told
        code, told = await check("--json")
        assert (code, json.loads(told)) == (1, {"restored": False, "waiting": ["b1"]})
        assert (await check("--accept", "--yes"))[0] == 0
        code, told = await check("--json")
        assert (code, json.loads(told)) == (0, {"restored": False})
