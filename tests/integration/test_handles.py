"""Handles of both clients on real bookies: how they are shown, made and closed, and what they hold meanwhile."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import ledgers
from ledgers import LedgerFenced, NewLedger
from ledgers.blocking.handle import BlockingHandle
from tests.support.in_process import on_bookies


async def test_a_handle_shows_its_ledger_and_its_state(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        writer = await client.create_ledger()
        advanced = await client.create_ledger_adv()
        of = f"of ledger {writer.ledger_id}:"
        assert repr(writer) == f"<WriteHandle {of} open, confirmed through -1>"
        await writer.append(b"zero")
        reader = await client.open_ledger(writer.ledger_id, recovery=False)
        assert repr(reader) == f"<ReadHandle {of} open, confirmed through {reader.last_add_confirmed}>"
        await writer.close()
        assert repr(writer) == f"<WriteHandle {of} closed, confirmed through 0>"
        reader = await client.open_ledger(advanced.ledger_id)
        of = f"of ledger {advanced.ledger_id}:"
        assert repr(reader) == f"<ReadHandle {of} closed, confirmed through -1>"
        with pytest.raises(LedgerFenced):
            await advanced.append(0, b"zero")
        assert repr(advanced) == f"<AdvancedWriteHandle {of} ended by LedgerFenced, confirmed through -1>"


def test_a_blocking_handle_shows_the_same(uri: str) -> None:
    with ledgers.LedgerClient(uri) as client, client.create_ledger() as writer:
        assert repr(writer) == f"<WriteHandle of ledger {writer.ledger_id}: open, confirmed through -1>"
    assert repr(writer) == f"<WriteHandle of ledger {writer.ledger_id}: closed, confirmed through -1>"


def test_an_advanced_and_a_reserved_ledger_are_created_with_the_arguments_of_any_other(uri: str) -> None:
    with ledgers.LedgerClient(uri) as client:
        with client.create_ledger_adv(ack_quorum=3, custom_metadata={"name": b"x"}) as writer:
            assert (writer.record.shape.ack_quorum, writer.record.custom_metadata["name"]) == (3, b"x")
        reserved = client.describe_ledger(client.reserve_ledger(ledger_id=4711, ensemble_size=2))
        assert (reserved.ledger_id, reserved.shape.ensemble_size) == (4711, 2)
        with pytest.raises(TypeError, match="pass a NewLedger or ack_quorum, but not both"):
            client.create_ledger_adv(NewLedger(), ack_quorum=3)


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_what_a_half_read_iterator_holds_is_freed_when_it_is_closed_or_dropped(how: str, uri: str) -> None:
    with ledgers.LedgerClient(uri) as client:
        writer = client.create_ledger()
        writer.append_batch([bytes(1000)] * 5000)
        reader = client.open_ledger(writer.ledger_id, recovery=False)
        held = reader._thread._sources
        for begin in (reader.read, partial(reader.tail, 4999), client.list_ledgers):
            half_read = begin()
            assert next(half_read)
            assert held
            if how == "closed":
                with closing(half_read):
                    pass
                assert list(half_read) == []
            else:
                del half_read
            reader._thread.run(lambda: asyncio.sleep(0))
            assert not held


@pytest.mark.parametrize("one", [ledgers.LedgerClient, *BlockingHandle.__subclasses__(), ledgers.Salvage])
def test_the_docstrings_of_the_blocking_client_stand_by_themselves(one: type) -> None:
    for name, method in vars(one).items():
        if not name.startswith("_"):
            told = inspect.getdoc(method)
            assert told, f"{one.__name__}.{name} says nothing"
            assert "aio" not in told, f"{one.__name__}.{name} only refers to another page"
    assert "see `ledgers." not in (one.__doc__ or "see `ledgers.")
