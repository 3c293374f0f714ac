"""A recovery acts on no metadata that bookies have seen at a later revision than it is at (rule W8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bookie.wire import LacReply, Status
from ledgers.aio import LedgerClient
from ledgers.errors import LedgerRecoveryFailed
from ledgers.recovering.accepted_metadata import LatestRevision
from metadata import keys
from metadata.backup import hold
from metadata.backup.hold import SeenRevision
from metadata.errors import MetadataRolledBack
from metadata.memory import MemoryStore
from metadata.records.ledger_record import BookieRef, LedgerState
from metadata.records.ledger_store import LedgerStore
from metadata.sqlite.store import SqliteStore
from metadata.store import Page
from tests.support.aio import run
from tests.support.in_process import InProcessCluster, on_bookies, payloads

WENT_BACK = r"at revision 1, and bookie b\d has seen it at \d+: it went back to an older copy"


@contextmanager
def at_revision_1() -> Iterator[None]:
    """The store, for whoever asks at which revision it is; bookies do not look meanwhile."""
    list_page = SqliteStore.list_page

    async def older(self: SqliteStore, prefix: str, **about: Any) -> Page:
        page = await list_page(self, prefix, **about)
        return replace(page, revision=1) if prefix == keys.BOOKIES else page

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteStore, "list_page", older)
        yield


def test_W8_nothing_is_closed_where_a_bookie_has_seen_the_store_at_a_later_revision(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(ensemble_size=1)
        await writer.append(b"a")
        await writer.abandon()
        with at_revision_1(), pytest.raises(LedgerRecoveryFailed, match=WENT_BACK):
            await client.open_ledger(writer.ledger_id)
        found = await LedgerStore(cluster.store).read(writer.ledger_id)
        assert found is not None and found.record.state is LedgerState.IN_RECOVERY
        assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"a"]

    on_bookies(tmp_path, 2, scenario)


def test_W8_no_loss_is_accepted_where_a_bookie_has_seen_the_store_at_a_later_revision(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
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

    on_bookies(tmp_path, 2, scenario)


def test_the_latest_revision_of_all_that_answer_counts() -> None:
    latest = LatestRevision()
    for name, revision in (("b1", 3), ("b2", 7), ("b3", 0)):
        latest.hear(BookieRef(name, "i"), LacReply(Status.OK, metadata_revision=revision))
    assert latest.seen == SeenRevision(7, str(BookieRef("b2", "i")))


@pytest.mark.parametrize("later", [0, 1])
def test_a_store_may_be_at_the_revision_at_which_it_was_seen_and_not_before(later: int) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        revision = await store.create("any", b"")
        seen = SeenRevision(revision + later, "b1")
        if not later:
            return await hold.check_accepted(store, seen)
        with pytest.raises(
            MetadataRolledBack, match=f"revision {revision}, and bookie b1 has seen it at {revision + 1}"
        ):
            await hold.check_accepted(store, seen)

    run(scenario())
