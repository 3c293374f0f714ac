"""Journals that are discarded from, formatted, upgraded, rolled back and purged while somebody writes them.

On models of acceptors, one or three, and on bookies where what was lost is a ledger.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ledgers.aio import LedgerClient
from metadata.records.journal_store import JournalStore
from qjm_compat import JournalConfig
from qjm_compat.acceptor.programs.state_transitions import segment_at
from qjm_compat.aio import DEFAULT_ACCEPTOR, QuorumJournalManager
from qjm_compat.errors import BadJournalState, QuorumFailed, StaleEpoch
from tests.qjm_compat.faulty import Down, OnModels, Plan
from tests.qjm_compat.journals import JOURNAL, NAMESPACE, all_edits, frames, manager_on, write, write_segment
from tests.support.aio import until_true
from tests.support.in_process import QUICK, InProcessCluster, on_bookies
from tests.support.present import there

either_form = pytest.mark.parametrize("acceptors", [1, 3])

UPGRADED = replace(NAMESPACE, layout_version=-64, c_time=77)


async def formatted(manager: QuorumJournalManager) -> None:
    await manager.format(NAMESPACE, force=True)


async def discarded(manager: QuorumJournalManager) -> None:
    await manager.discard_segments(6)


async def upgraded(manager: QuorumJournalManager) -> None:
    await manager.do_pre_upgrade()
    await manager.do_upgrade(UPGRADED)


async def rolled_back(manager: QuorumJournalManager) -> None:
    await upgraded(manager)
    await manager.do_rollback()


Change = Callable[[QuorumJournalManager], Awaitable[None]]

KEPT: dict[Change, int] = {formatted: 0, discarded: 5, upgraded: 10, rolled_back: 10}
"""What may be done to a whole journal that ends with txid 10, and with which txid it ends then."""

each_change = pytest.mark.parametrize("change", KEPT, ids=lambda change: change.__name__)


def manager_of(models: OnModels) -> QuorumJournalManager:
    return models.manager([Plan() for _ in range(models.acceptors)])


async def two_segments(manager: QuorumJournalManager) -> None:
    """A new journal with the segments 1-5 and 6-10, and its writer."""
    await manager.format(NAMESPACE)
    await manager.recover_unfinalized_segments()
    await write_segment(manager, 1, 5)
    await write_segment(manager, 6, 10)


async def ends(manager: QuorumJournalManager, *, in_progress_ok: bool = False) -> list[tuple[int, int]]:
    streams = await manager.select_input_streams(1, in_progress_ok=in_progress_ok)
    return [(stream.first_txid, stream.last_txid) for stream in streams]


async def goes_on(models: OnModels, kept: int) -> None:
    """The next writer writes behind what was kept, and the one after it finds all that was acknowledged."""
    async with manager_of(models) as manager:
        await manager.recover_unfinalized_segments()
        await write_segment(manager, kept + 1, kept + 2, by="next")
        out = await manager.start_log_segment(kept + 3)
        assert await write(out, 2, by="next") == kept + 4
    async with manager_of(models) as manager:
        recovered = await manager.recover_unfinalized_segments()
        assert recovered is not None and recovered.end_txid == kept + 4
        whole = (frames(1, kept) if kept else b"") + frames(kept + 1, 4, by="next")
        assert await all_edits(manager) == whole


@either_form
@each_change
async def test_who_changes_a_whole_journal_is_its_writer_no_more_and_the_next_writer_is(
    acceptors: int, change: Change
) -> None:
    models = OnModels(acceptors)
    async with manager_of(models) as manager:
        await two_segments(manager)
        await change(manager)
        for first_txid in (6, 11):
            with pytest.raises(BadJournalState):
                await manager.start_log_segment(first_txid)
    await goes_on(models, KEPT[change])


@either_form
@each_change
@pytest.mark.parametrize("inside", [False, True], ids=["between segments", "inside of one"])
async def test_a_writer_whose_journal_is_changed_by_another_process_is_refused(
    acceptors: int, change: Change, inside: bool
) -> None:
    """Between segments it has no ledger open that could be fenced."""
    models = OnModels(acceptors)
    async with manager_of(models) as old, manager_of(models) as operator:
        await two_segments(old)
        out = await old.start_log_segment(11) if inside else None
        await change(operator)
        with pytest.raises(QuorumFailed) as refused:
            await (write(out, 3) if out else old.start_log_segment(11))
        assert {type(error) for error in refused.value.errors.values()} == {StaleEpoch}
        if out:
            await out.abort()
            with pytest.raises(BadJournalState):
                await old.start_log_segment(11)
    await goes_on(models, KEPT[change])


@either_form
async def test_edits_written_after_a_purge_past_the_end_are_shown_recovered_and_purged_in_their_turn(
    acceptors: int,
) -> None:
    models = OnModels(acceptors)
    async with manager_of(models) as manager:
        await two_segments(manager)
        await manager.purge(1000)
        assert await ends(manager) == []
        async with await manager.start_log_segment(11) as out:
            await write(out, 10)
            assert await ends(manager, in_progress_ok=True) == [(11, 20)]
        await manager.finalize_log_segment(11, 20)
        await write_segment(manager, 21, 25)
        await write(await manager.start_log_segment(26), 5)
    async with manager_of(models) as manager:
        await manager.recover_unfinalized_segments()
        assert await ends(manager) == [(11, 20), (21, 25), (26, 30)]
        assert await all_edits(manager) == frames(11, 20)
        await manager.purge(21)
        assert await ends(manager) == [(21, 25), (26, 30)]


@either_form
async def test_discarding_inside_of_a_segment_in_progress_is_refused_and_loses_nothing(
    acceptors: int,
) -> None:
    models = OnModels(acceptors)
    async with manager_of(models) as manager:
        await two_segments(manager)
        await write(await manager.start_log_segment(11), 10)
    async with manager_of(models) as operator:
        for first_txid in (3, 12, 20):
            with pytest.raises(BadJournalState, match="it lies inside segment"):
                await operator.discard_segments(first_txid)
    async with manager_of(models) as manager:
        await manager.recover_unfinalized_segments()
        assert await ends(manager) == [(1, 5), (6, 10), (11, 20)]


@pytest.mark.parametrize("segments_behind", [0, 2])
async def test_a_copy_in_progress_that_a_recovery_overruled_elsewhere_is_no_obstacle_to_discarding(
    segments_behind: int,
) -> None:
    models = OnModels(3)
    plans = [Down(), Down(), Plan()]
    async with models.manager(plans) as manager:
        await manager.format(NAMESPACE)
        await manager.recover_unfinalized_segments()
        out = await manager.start_log_segment(1)
        await write(out, 5)
        plans[0].is_down = plans[1].is_down = True  # type: ignore[attr-defined]
        with pytest.raises(QuorumFailed):
            await write(out, 20)  # has got to the third only
    away = Down()
    away.is_down = True
    async with models.manager([Plan(), Plan(), away]) as manager:
        await manager.recover_unfinalized_segments()
        assert await ends(manager) == [(1, 5)]
        for n in range(segments_behind):
            await write_segment(manager, 6 + 2 * n, 7 + 2 * n)
    last = 5 + 2 * segments_behind
    async with manager_of(models) as operator:
        await operator.discard_segments(last + 1)
    await goes_on(models, last)


# --- what was lost ------------------------------------------------------------------------------------------


async def with_a_segment_in_progress(uri: str, acceptors: int) -> None:
    config = JournalConfig(ensemble_size=1)
    async with manager_on(uri, acceptors, config=config) as manager:
        await manager.format(NAMESPACE)
        await manager.recover_unfinalized_segments()
        await write_segment(manager, 1, 5)
        await write(await manager.start_log_segment(6), 5)
        await until_true(lambda: all(logger.channel.is_idle for logger in manager._set.loggers))


async def ledger_of(cluster: InProcessCluster, acceptor: str, first_txid: int) -> int:
    found = there(await JournalStore(cluster.store, JOURNAL, acceptor).read_state())
    return there(segment_at(found.state, first_txid)).ledger_id


async def delete_its_ledger(cluster: InProcessCluster, client: LedgerClient, acceptor: str) -> None:
    await client.delete_ledger(await ledger_of(cluster, acceptor, 6))


async def stop_its_bookie(cluster: InProcessCluster, client: LedgerClient, acceptor: str) -> None:
    """For good; two others are there for what is written next."""
    record = await client.describe_ledger(await ledger_of(cluster, acceptor, 6))
    await cluster.stop(record.fragments[-1].ensemble[0].bookie_id)


each_loss = pytest.mark.parametrize(
    "loss", [delete_its_ledger, stop_its_bookie], ids=lambda loss: loss.__name__
)
each_way_out = pytest.mark.parametrize("change", [formatted, discarded], ids=lambda change: change.__name__)


@each_loss
@each_way_out
async def test_a_segment_whose_end_nobody_can_tell_stops_the_journal_until_it_is_given_up_by_command(
    tmp_path: Path,
    loss: Callable[[InProcessCluster, LedgerClient, str], Awaitable[None]],
    change: Change,
) -> None:
    async with on_bookies(tmp_path, 3, config=QUICK) as (cluster, client):
        config = JournalConfig(ensemble_size=1)
        await with_a_segment_in_progress(cluster.uri, 1)
        lost = await ledger_of(cluster, DEFAULT_ACCEPTOR, 6)
        await loss(cluster, client, DEFAULT_ACCEPTOR)
        async with manager_on(cluster.uri, config=config) as manager:
            with pytest.raises(QuorumFailed, match=f"ledger {lost} could not be ended"):
                await manager.recover_unfinalized_segments()
        async with manager_on(cluster.uri, config=config) as operator:
            await change(operator)
        kept = 5 if change is discarded else 0
        async with manager_on(cluster.uri, config=config) as manager:
            await manager.recover_unfinalized_segments()
            await write_segment(manager, kept + 1, kept + 2, by="next")
            assert (await ends(manager))[-1] == (kept + 1, kept + 2)


async def test_a_minority_that_lost_its_ledger_is_no_obstacle_to_the_next_writer(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, config=QUICK) as (cluster, client):
        await with_a_segment_in_progress(cluster.uri, 3)
        await delete_its_ledger(cluster, client, "a")
        async with manager_on(cluster.uri, 3) as manager:
            await manager.recover_unfinalized_segments()
            await write_segment(manager, 11, 12)
            assert await ends(manager) == [(1, 5), (6, 10), (11, 12)]
            assert await all_edits(manager) == frames(1, 12)
