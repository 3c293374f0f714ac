"""The extra `fast`: bookies on uvloop, and applications that run on it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import pytest
import uvloop

from bookie.wire.messages import MaintainRequest, MaintenanceAction
from bookledger.cli import event_loop
from bookledger.cli.event_loop import EventLoop, factory_of
from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient as BlockingClient
from ledgers.aio import LedgerClient

ON_UVLOOP = ("--event-loop=uvloop",)
ENTRIES = [b"", b"x" * 1000, b"y" * (4 * 1024 * 1024)] * 3
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_on_either_loop_writes_takes_over_and_reads_at_bookies_on_uvloop(
    tmp_path: Path, loop: str
) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"

    async def scenario() -> None:
        async with asyncio.timeout(60), LedgerClient(uri) as client, LedgerClient(uri) as successor:
            writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
            assert await asyncio.gather(*map(writer.append, ENTRIES)) == list(range(len(ENTRIES)))
            reader = await successor.open_ledger(writer.ledger_id)
            assert [entry.payload async for entry in reader.read(0, reader.last_add_confirmed)] == ENTRIES
            [bookie, *_] = await client.list_bookies()
            reply = await client.maintain_bookie(bookie.bookie, MaintainRequest(MaintenanceAction.STATUS), 30)
            assert reply.report

    with (
        bookie_processes(3, tmp_path, uri, options=ON_UVLOOP),
        asyncio.Runner(loop_factory=LOOPS[loop]) as runner,
    ):
        runner.run(scenario())


def test_a_bookie_on_uvloop_is_killed_and_stopped_like_any_other(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri, options=ON_UVLOOP) as bookies, BlockingClient(uri) as client:
        writer = client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
        writer.append(b"before")
        bookies[0].kill()
        writer.append(b"meanwhile")
        bookies[0].start()
        assert bookies[1].stop() == 0
        bookies[1].start()
        writer.append(b"behind")
        writer.close()
        reader = client.open_ledger(writer.ledger_id)
        assert [entry.payload for entry in reader.read(0, 2)] == [b"before", b"meanwhile", b"behind"]


def test_the_fastest_loop_is_the_one_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert factory_of(EventLoop.FASTEST) is uvloop.new_event_loop
    assert factory_of(EventLoop.ASYNCIO) is asyncio.new_event_loop
    monkeypatch.setattr(event_loop, "find_spec", lambda _: None)
    assert factory_of(EventLoop.FASTEST) is asyncio.new_event_loop
    with pytest.raises(click.UsageError, match=r"pip install 'bookledger\[fast\]'"):
        factory_of(EventLoop.UVLOOP)
