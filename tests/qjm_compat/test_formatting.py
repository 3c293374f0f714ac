"""Formatting where some acceptors hold the journal: the others join these, or nothing is done, and it is said which."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from metadata.records.journal_record import JournalState
from metadata.records.journal_store import JournalStore
from qjm_compat import AcceptorConfig, JournalConfig
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.errors import (
    BadJournalState,
    HalfFormatted,
    JournalNotEmpty,
    JournalUnavailable,
    QuorumFailed,
    StaleEpoch,
)
from qjm_compat.formatting import Formatted
from qjm_compat.requests import Format, NewEpoch, R, Request
from qjm_compat.transfer.checking.fsck import check_journal
from qjm_compat.transfer.inspection.inspector import JournalInspector
from tests.qjm_compat.gates import InFront
from tests.qjm_compat.journals import JOURNAL, NAMESPACE, write, write_segment
from tests.support.aio import until_true
from tests.support.in_process import QUICK, InProcessCluster, cluster_of

OTHER = replace(NAMESPACE, namespace_id=99)
CONFIG = JournalConfig(ensemble_size=1, sync_interval_seconds=0)


class Acceptors:
    """Managers over some of the acceptors that one cluster has."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self.cluster = cluster

    def manager(self, names: str, away: str = "") -> QuorumJournalManager:
        lost = f"sqlite://{self.cluster.path}/nothing/there.db"
        acceptors = [AcceptorConfig(name, lost if name in away else self.cluster.uri) for name in names]
        return QuorumJournalManager(
            self.cluster.uri, JOURNAL, acceptors=acceptors, config=CONFIG, client_config=QUICK
        )

    async def state(self, name: str) -> JournalState | None:
        found = await JournalStore(self.cluster.store, JOURNAL, name).read_state()
        return found.state if found is not None else None

    async def formatted(self) -> str:
        return "".join([name for name in "abcd" if await self.state(name) is not None])

    async def problems(self, names: str) -> list[str]:
        acceptors = [AcceptorConfig(name, self.cluster.uri) for name in names]
        async with JournalInspector(JOURNAL, acceptors, client_config=QUICK) as inspector:
            return [str(problem) for problem in (await check_journal(inspector)).problems]


@asynccontextmanager
async def on_acceptors(tmp_path: Path) -> AsyncIterator[Acceptors]:
    async with cluster_of(tmp_path, 1) as cluster:
        yield Acceptors(cluster)


async def test_the_third_is_formatted_as_the_two_are_and_nothing_else_happens(tmp_path: Path) -> None:
    async with on_acceptors(tmp_path) as those:
        theirs = replace(NAMESPACE, layout_version=-60, c_time=5)
        async with those.manager("ab") as two:
            assert await two.format(theirs) == Formatted(theirs, ("a", "b"))
        async with those.manager("abc") as three:
            done = await three.format(NAMESPACE)
            assert done == Formatted(theirs, ("c",), ("a", "b"))
            assert await three.namespace() == theirs
            with pytest.raises(QuorumFailed) as raised:
                await three.format(NAMESPACE)
            assert {type(error) for error in raised.value.errors.values()} == {JournalNotEmpty}
            await three.recover_unfinalized_segments()
            await write_segment(three, 1, 3)


async def test_it_joins_beside_a_writer_that_goes_on_and_takes_part_from_the_next_segment(
    tmp_path: Path,
) -> None:
    async with on_acceptors(tmp_path) as those:
        async with those.manager("abc") as old:
            await old.format(NAMESPACE)
            await old.recover_unfinalized_segments()
            await write_segment(old, 1, 3)
            out = await old.start_log_segment(4)
            await write(out, 2)
            async with those.manager("abd") as new:
                await new.sync()
                assert (await new.format(NAMESPACE)).acceptors == ("d",)
                state = await those.state("d")
                assert state is not None
                assert (state.last_promised_epoch, state.joined_behind) == (1, 4)
                await write(out, 2)
                await out.close()
                await old.finalize_log_segment(4, 7)
                done = await new.sync()
                assert (done.problems, done.waits) == ([], [])
        async with those.manager("abd") as writer:
            await writer.recover_unfinalized_segments()
            assert writer.epoch == 1002
            await write_segment(writer, 8, 9)

            async def is_whole() -> bool:  # the third of them may be late
                return await those.problems("abd") == []

            await until_true(is_whole)


async def test_nothing_is_done_for_another_namespace_or_where_one_does_not_answer(tmp_path: Path) -> None:
    async with on_acceptors(tmp_path) as those:
        async with those.manager("abc", away="c") as manager:
            with pytest.raises(QuorumFailed, match="isFormatted"):
                await manager.format(NAMESPACE)
        assert await those.formatted() == ""
        async with those.manager("ab") as two:
            await two.format(NAMESPACE)
        async with those.manager("abc") as three:
            with pytest.raises(
                BadJournalState, match=r"nothing was done: acceptors a, b hold journal ns1 of "
            ):
                await three.format(OTHER)
        assert await those.formatted() == "ab"


async def test_one_of_three_that_holds_edits_is_not_added_to(tmp_path: Path) -> None:
    async with on_acceptors(tmp_path) as those:
        async with those.manager("a") as one:
            await one.format(NAMESPACE)
            await one.recover_unfinalized_segments()
            await write_segment(one, 1, 3)
        async with those.manager("abc") as three:
            with pytest.raises(BadJournalState, match="edits that a majority acknowledged may be lost"):
                await three.format(NAMESPACE)
        assert await those.formatted() == "a"
        async with those.manager("ab") as two:  # one after the other is well
            assert (await two.format(NAMESPACE)).acceptors == ("b",)
            with pytest.raises(BadJournalState, match="lacks segment 1-3"):
                async with those.manager("abc") as three:
                    await three.format(NAMESPACE)
            assert (await two.sync()).copied == 1
        async with those.manager("abc") as three:
            assert (await three.format(NAMESPACE)).acceptors == ("c",)


class Refusing(InFront):
    """An acceptor whose disk fails when it is to be formatted."""

    async def call(self, request: Request[R]) -> R:
        if isinstance(request, Format):
            raise JournalUnavailable("the disk is full")
        return await super().call(request)


@pytest.mark.parametrize("before", ["", "ab"])
async def test_a_format_that_fails_half_way_says_where_it_was_done_and_the_same_call_does_the_rest(
    tmp_path: Path, before: str
) -> None:
    async with on_acceptors(tmp_path) as those:
        if before:
            async with those.manager(before) as two:
                await two.format(NAMESPACE)
        async with those.manager("abcd") as manager:
            logger = next(one for one in manager._set.loggers if one.name == "c")
            logger.acceptor = Refusing(logger.acceptor)
            with pytest.raises(HalfFormatted) as raised:
                await manager.format(NAMESPACE)
            assert str(raised.value) == (
                "journal ns1 is now formatted at acceptor a, b, d, but nothing was done at the others: the same call "
                "formats these. c: the disk is full"
            )
            assert raised.value.done == ("a", "b", "d")
        assert await those.formatted() == "abd"
        async with those.manager("abcd") as manager:
            assert (await manager.format(NAMESPACE)).acceptors == ("c",)


async def test_a_format_that_reached_one_of_three_says_that_it_takes_force(tmp_path: Path) -> None:
    """One that nobody has promised anything may as well be all that is left of a journal."""
    async with on_acceptors(tmp_path) as those:
        async with those.manager("abc") as manager:
            for logger in manager._set.loggers[1:]:
                logger.acceptor = Refusing(logger.acceptor)
            with pytest.raises(HalfFormatted, match="the same call with --force formats all of them again"):
                await manager.format(NAMESPACE)
        async with those.manager("abc") as manager:
            with pytest.raises(BadJournalState, match="If this journal was never written to, --force"):
                await manager.format(NAMESPACE)
            assert (await manager.format(NAMESPACE, force=True)).acceptors == ("a", "b", "c")


async def test_force_forgets_what_all_of_them_hold_and_promises_more(tmp_path: Path) -> None:
    async with on_acceptors(tmp_path) as those:
        async with those.manager("ab") as two:
            await two.format(NAMESPACE)
        async with those.manager("abc") as three:
            await three.format(NAMESPACE)
            assert await three.format(OTHER, force=True) == Formatted(OTHER, ("a", "b", "c"))
        for name in "ab":
            state = await those.state(name)
            assert state is not None
            assert (state.last_promised_epoch, state.epochs_above) == (1001, 0)
        async with those.manager("abc") as three:
            with pytest.raises(StaleEpoch):
                await three._journals["a"].call(NewEpoch(OTHER, 1001))
            await three.recover_unfinalized_segments()
