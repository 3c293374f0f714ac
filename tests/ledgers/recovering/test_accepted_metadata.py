"""A recovery acts on no metadata that bookies have seen at a later revision than it is at (rule W8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bookie.wire import LacReply, Status
from ledgers.cluster import Cluster
from ledgers.errors import LedgerRecoveryFailed
from ledgers.recovering.accepted_metadata import RevisionCheck
from metadata import keys
from metadata.backup import hold
from metadata.backup.hold import SeenRevision
from metadata.errors import MetadataRolledBack
from metadata.memory import MemoryStore
from metadata.records.ledger_record import BookieRef, LedgerState
from metadata.records.ledger_store import LedgerStore
from metadata.sqlite.store import SqliteStore
from metadata.store import PAGE_KEYS_MAX, Page
from tests.support.in_process import on_bookies, payloads

WENT_BACK = r"at revision 1, and bookie b\d has seen it at \d+: it went back to an older copy"


@contextmanager
def at_revision_1(times: int = 1) -> Iterator[None]:
    """The store, for so many that ask at which revision it is; bookies do not look meanwhile."""
    list_page, left = SqliteStore.list_page, iter(range(times))

    async def older(self: SqliteStore, prefix: str, **about: Any) -> Page:
        page = await list_page(self, prefix, **about)
        is_asked = prefix == keys.BOOKIES and about.get("limit") == 1
        return replace(page, revision=1) if is_asked and next(left, None) is not None else page

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteStore, "list_page", older)
        yield
        assert next(left, None) is None, "nobody asked"


async def test_W8_nothing_is_closed_where_a_bookie_has_seen_the_store_at_a_later_revision(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 2) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=1)
        await writer.append(b"a")
        await writer.abandon()
        with at_revision_1(), pytest.raises(LedgerRecoveryFailed, match=WENT_BACK):
            await client.open_ledger(writer.ledger_id)
        found = await LedgerStore(cluster.store).read(writer.ledger_id)
        assert found is not None and found.record.state is LedgerState.IN_RECOVERY
        assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"a"]


async def test_W8_no_loss_is_accepted_where_a_bookie_has_seen_the_store_at_a_later_revision(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 2) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=1)
        await writer.append(b"a")
        await writer.abandon()
        await cluster.stop("b1")
        with at_revision_1(), pytest.raises(LedgerRecoveryFailed, match=WENT_BACK):
            await client.assess_loss(writer.ledger_id)
        assessment = await client.assess_loss(writer.ledger_id)
        with at_revision_1(), pytest.raises(LedgerRecoveryFailed, match=WENT_BACK):
            await client.accept_loss(assessment)
        assert (await client.accept_loss(assessment)).is_closed


@pytest.mark.parametrize("later", [0, 1])
async def test_a_store_may_be_at_the_revision_at_which_it_was_seen_and_not_before(later: int) -> None:
    store = MemoryStore()
    revision = await store.create("any", b"")
    seen = SeenRevision(revision + later, "b1")
    if not later:
        assert await hold.check_not_rolled_back(store, seen) == revision
        return
    why = f"revision {revision}, and bookie b1 has seen it at {revision + 1}"
    with pytest.raises(MetadataRolledBack, match=why):
        await hold.check_not_rolled_back(store, seen)


async def test_a_store_is_asked_once_for_all_that_have_seen_no_more_of_it() -> None:
    class Counts(MemoryStore):
        asked = 0

        async def list_page(
            self, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX
        ) -> Page:
            self.asked += 1
            return await super().list_page(prefix, after=after, limit=limit)

    store = Counts()
    check = RevisionCheck(cast(Cluster, SimpleNamespace(store=store)), 7)
    b1, revision = BookieRef("b1", "i"), await store.create("any", b"")
    for seen in (0, revision, revision - 1):
        await check.hear(b1, LacReply(Status.OK, metadata_revision=seen))
    assert store.asked == 1
    with pytest.raises(LedgerRecoveryFailed, match="bookie b1 has seen it"):
        await check.hear(b1, LacReply(Status.OK, metadata_revision=revision + 1))
