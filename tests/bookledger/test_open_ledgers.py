"""What every face tells of a ledger that is not closed: what its bookies know, and *unknown* where they do not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bookledger.cluster import open_ledgers
from bookledger.cluster.open_ledgers import ASKED_AT_ONCE_MAX, AtBookies, ask_bookies
from ledgers.aio import LedgerClient, ReadHandle, WriteHandle
from metadata.records.ledger_record import LedgerState
from tests.bookledger.console.test_pages import shown, text_of
from tests.bookledger.test_api import answering, told
from tests.support.in_process import on_bookies
from tests.support.made_clusters import a_record


async def written(client: LedgerClient) -> WriteHandle:
    """Ten entries of 100 bytes, and one more, which brings so many bookies their last-add-confirmed that it is seen."""
    writer = await client.create_ledger()
    await writer.append_batch([b"x" * 100] * 10)
    await writer.append(b"x" * 100)
    return writer


def is_told(found: AtBookies, addresses: Sequence[str]) -> bool:
    """Whether it is what the bookies know; it ends with entry 9 or 10. `addresses`: of bookies, which do not write."""
    last, writer = found.last_add_confirmed, found.writer_address
    assert last is not None and writer is not None
    is_whole = found.confirmed_bytes == 100 * (last + 1) and not found.why_unknown
    return is_whole and last in (9, 10) and writer.startswith("127.0.0.1:") and writer not in addresses


def sent_last_from(pattern: str, page: str) -> str:
    (found,) = re.findall(pattern, page)
    return str(found)


async def test_of_an_open_ledger_the_api_and_the_console_tell_what_its_bookies_know(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client), answering(cluster.uri) as url:
        addresses = [one.address for one in cluster.running.values()]
        writer = await written(client)
        one = await told(url, "/ledgers/{ledger_id}", f"/ledgers/{writer.ledger_id}")
        (listed,) = (await told(url, "/ledgers"))["ledgers"]
        for found in (one, listed | {"why_unknown": ""}):
            assert is_told(AtBookies(*[found[name] for name in AtBookies.__slots__]), addresses)
            assert (found["last_entry"], found["length_bytes"]) == (None, None)
        async with shown(cluster.uri) as session:
            page = await text_of(session, f"/ledgers/{writer.ledger_id}")
            pages = await text_of(session, "/ledgers")
        # A client has a connection, and so a port, for each bookie: which of them is told may differ between looks.
        for sent_from in (
            sent_last_from(r"last seen at (\S+?)<", page),
            sent_last_from(r">from (\S+?)<", pages),
        ):
            assert sent_from.startswith("127.0.0.1:") and sent_from not in addresses
        assert "so far" in page.lower() and "so far" in pages.lower()
        await writer.close()
        closed = await told(url, "/ledgers/{ledger_id}", f"/ledgers/{writer.ledger_id}")
    assert (closed["last_add_confirmed"], closed["confirmed_bytes"]) == (10, 1100)
    assert (closed["writer_address"], closed["why_unknown"]) == (None, "")


async def test_what_is_not_known_of_an_open_ledger_is_unknown_with_the_reason(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, client):
        plain = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        secret = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1, password=b"s" * 12)
        fresh = await ask_bookies(client, [plain.record, secret.record])
        await cluster.stop("b1")
        away = (await ask_bookies(client, [plain.record]))[plain.ledger_id]
    assert fresh[plain.ledger_id] == AtBookies(-1, 0, None), "nobody has written to it"
    assert fresh[secret.ledger_id] == AtBookies(
        why_unknown="the ledger has a password, which is unknown here"
    )
    assert away == replace(AtBookies(), why_unknown=away.why_unknown) and "b1" in away.why_unknown


class HangingClient(LedgerClient):
    """No bookie ever answers it."""

    asked = 0

    async def open_ledger(self, *_: object, **__: object) -> ReadHandle:
        self.asked += 1
        return await asyncio.Future()


async def test_so_many_are_asked_for_at_once_and_all_in_a_list_share_one_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_ledgers, "ASK_SECONDS_MAX", 0.1)
    still: dict[str, Any] = {"state": LedgerState.OPEN, "last_entry": None, "length_bytes": None}
    client = HangingClient("memory://nobody")
    seen = await ask_bookies(client, [a_record(n, **still) for n in range(1, 200)] + [a_record(200)])
    assert client.asked == ASKED_AT_ONCE_MAX, "nobody waits a second time"
    assert set(seen) == set(range(1, 200)), "closed ones are not asked for"
    assert {one.why_unknown for one in seen.values()} == {"the bookies have not answered for 0.1 s"}
