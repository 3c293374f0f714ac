"""A writer that dies or stands still at any step of its life: the next one recovers, nothing confirmed is lost.

A step is a call to an acceptor, or what an acceptor asks of ledgers and metadata. Acceptors run inside of
their writer's process, so a kill ends both at once; what survives is in ledgers and metadata.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli.child import Child
from qjm_compat.aio import QuorumJournalManager
from tests.qjm_compat.auditor import Confirmed, audit, confirmed_batch, differing_copies, noted
from tests.qjm_compat.doomed import FLUSHES, SEGMENTS, TXNS, Doom
from tests.qjm_compat.gates import leave_out
from tests.qjm_compat.journals import NAMESPACE, frames, manager_on, write, write_segment
from tests.support.etcd import EtcdServer
from tests.support.in_process import InProcessCluster, cluster_of
from tests.support.long_runs import first_then_long

EVERY_STEP = "BOOKLEDGER_SOAK_SECONDS" in os.environ
SHARES = {"call": 4, "effect": 8}
"""One step in so many is tried, others each time; with three acceptors, which take thrice as many, a third of that."""

AT_ONCE = 3
SECONDS_MAX = 600 if EVERY_STEP else 120
NEVER = 10**9

CALLS_AHEAD_MAX = 9
"""So many calls of others may be answered before that of an acceptor which the machine gives no turn."""
pytestmark = pytest.mark.timeout(SECONDS_MAX + 60)

OLD = 8
"""Edits of the writer before, confirmed: 1-4 finalized, 5-8 not, and with three acceptors only at two of them."""

SUPERSEDED = {"StaleEpoch", "JournalOutOfSync", "BadJournalState"}
"""What acceptors say to a writer that has lost the journal; the last where its segment is there already, finalized."""


@dataclass
class Trial:
    """Journals on one cluster, each for one doomed writer, and processes that make these."""

    cluster: InProcessCluster
    acceptors: int
    makers: asyncio.Queue[Child]
    numbers: Iterable[int] = field(default_factory=itertools.count)

    async def run_all(self, dooms: Iterable[Doom], trial: Callable[[Child, Doom], Any]) -> None:
        async def one(doom: Doom) -> None:
            maker = await self.makers.get()
            try:
                async with asyncio.timeout(SECONDS_MAX):
                    await trial(maker, await self.prepared(doom))
            except BaseException as error:
                error.add_note(str(doom))
                raise
            finally:
                self.makers.put_nowait(maker)

        async with asyncio.TaskGroup() as group:
            for doom in dooms:
                group.create_task(one(doom))

    def doom(self, step: Any, number: int, when: Any = "before", how: int = signal.SIGKILL) -> Doom:
        name = f"ns{next(iter(self.numbers))}"
        notes = str(self.cluster.path / f"{name}.notes")
        return Doom(self.cluster.uri, name, self.acceptors, notes, step, number, when, how)

    def manager(self, doom: Doom) -> QuorumJournalManager:
        return manager_on(doom.uri, doom.acceptors, journal_id=doom.journal_id)

    async def prepared(self, doom: Doom) -> Doom:
        """A journal with a finalized segment and one that its writer has left; not all acceptors have all of that."""
        async with self.manager(doom) as manager:
            await manager.format(NAMESPACE)
            await manager.recover_unfinalized_segments()
            await write_segment(manager, 1, OLD // 2, "old")
            out = await manager.start_log_segment(OLD // 2 + 1)
            if doom.acceptors > 1:
                await leave_out(manager._set.loggers[-1])
            await write(out, OLD // 2, "old")
        return doom

    async def steps(self, step: Any) -> int:
        """How many steps a writer takes that nothing happens to."""
        doom = self.doom(step, NEVER)
        maker = await self.makers.get()
        told = await tell(maker, asdict(await self.prepared(doom)))
        self.makers.put_nowait(maker)
        assert told["is"] == "ended", told
        assert len(noted(Path(doom.notes))) == SEGMENTS * FLUSHES
        return int(told["steps"])


async def tell(maker: Child, what: dict[str, Any]) -> dict[str, Any]:
    maker.send(json.dumps(what))
    return await asyncio.to_thread(maker.hear)


@asynccontextmanager
async def trial_of(tmp_path: Path, acceptors: int, uri: str | None = None) -> AsyncIterator[Trial]:
    makers: asyncio.Queue[Child] = asyncio.Queue()
    async with cluster_of(tmp_path, 3, uri=uri) as cluster:
        children = [
            Child(
                ("-m", "tests.qjm_compat.doomed", str(tmp_path / f"told-{n}")),
                log=tmp_path / "makers.log",
                dies_with_parent=True,
            )
            for n in range(AT_ONCE)
        ]
        try:
            for child in children:
                makers.put_nowait(child)
            yield Trial(cluster, acceptors, makers)
        finally:
            for child in children:
                await asyncio.to_thread(child.stop)


async def take_over(manager: QuorumJournalManager) -> list[Confirmed]:
    """The next writer's work: a segment of its own behind all that there is."""
    recovered = await manager.recover_unfinalized_segments()
    assert recovered is not None
    first, last = recovered.end_txid + 1, recovered.end_txid + TXNS
    await write_segment(manager, first, last, "next")
    return [confirmed_batch(first, last, frames(first, TXNS, "next"), "next")]


async def check(manager: QuorumJournalManager, doom: Doom, more: list[Confirmed]) -> None:
    """Everything confirmed is there; of what was not, one batch at most; and all copies are equal."""
    old = [
        confirmed_batch(first, last, frames(first, OLD // 2, "old"), "old")
        for first, last in ((1, 4), (5, 8))
    ]
    doomed = noted(Path(doom.notes))
    owners: list[str] = []
    last = await audit(manager, [*old, *doomed, *more], lambda op: owners.append(op.path.split("/")[1]))
    assert last == len(owners)
    assert owners.count("doomed") - TXNS * len(doomed) in (0, TXNS)
    assert await differing_copies(manager) == []


def check_was_not_reached(trial: Trial, steps: int, doom: Doom) -> None:
    """With several acceptors the last calls are not waited for: not always made, and not always answered.

    A call that was made and is not answered yet may have a few others behind it, of those who are faster.
    """
    ahead = CALLS_AHEAD_MAX if doom.when == "after" else 0
    assert trial.acceptors > 1 and steps < doom.number + ahead


async def killed(trial: Trial, maker: Child, doom: Doom) -> None:
    told = await tell(maker, asdict(doom))
    if told["is"] == "ended":
        check_was_not_reached(trial, told["steps"], doom)
        return
    assert told == {"is": "killed", "by": signal.SIGKILL}
    async with trial.manager(doom) as manager:
        await check(manager, doom, await take_over(manager))


async def stopped(trial: Trial, maker: Child, doom: Doom) -> None:
    """It wakes up when another one has the journal; only if it had not asked for an epoch yet may it go on."""
    told = await tell(maker, asdict(doom))
    if told["is"] == "ended":
        check_was_not_reached(trial, told["steps"], doom)
        return
    assert told["is"] == "stopped"
    async with trial.manager(doom) as manager:
        after = await take_over(manager)
        confirmed_before = len(noted(Path(doom.notes)))
        told = await tell(maker, {"wait": told["pid"]})
        assert told["is"] == "ended"
        if "causes" in told:
            assert set(told["causes"]) <= SUPERSEDED, told
            # A batch that was on the disks of a quorum before: its answers were read only now.
            answered = doom.when == "after" or trial.acceptors > 1
            assert len(noted(Path(doom.notes))) - confirmed_before <= answered
        await check(manager, doom, after)
        if doom.number > trial.acceptors * 2:  # it had an epoch, and lost it
            assert "causes" in told or doom.when == "after", told
            await write(await manager.start_log_segment(after[-1].last + 1))  # its successor never noticed


def of_these(step: str, steps: int, acceptors: int) -> list[int]:
    """The steps to try, every so many; all of them in a soak."""
    share = 1 if EVERY_STEP else SHARES[step] * acceptors
    return list(range(1, steps + 1, share))


@pytest.mark.parametrize("acceptors", first_then_long([3, 1]))
async def test_a_writer_killed_before_or_after_any_call_to_an_acceptor_leaves_all_it_was_told_is_confirmed(
    tmp_path: Path, acceptors: int
) -> None:
    async with asyncio.timeout(SECONDS_MAX), trial_of(tmp_path, acceptors) as trial:
        numbers = of_these("call", await trial.steps("call"), acceptors)
        dooms = [trial.doom("call", n, when) for n in numbers for when in ("before", "after")]
        await trial.run_all(dooms, lambda maker, doom: killed(trial, maker, doom))


@pytest.mark.parametrize("acceptors", first_then_long([3, 1]))
async def test_a_writer_killed_before_anything_that_an_acceptor_does_leaves_all_it_was_told_is_confirmed(
    tmp_path: Path, acceptors: int
) -> None:
    async with asyncio.timeout(SECONDS_MAX), trial_of(tmp_path, acceptors) as trial:
        numbers = of_these("effect", await trial.steps("effect"), acceptors)
        dooms = [trial.doom("effect", n) for n in numbers]
        await trial.run_all(dooms, lambda maker, doom: killed(trial, maker, doom))


@pytest.mark.parametrize("acceptors", first_then_long([3, 1]))
async def test_a_writer_that_stood_still_at_any_call_while_another_took_over_is_refused_when_it_wakes_up(
    tmp_path: Path, etcd: EtcdServer, acceptors: int
) -> None:
    """Over etcd: a process that is stopped while it holds the lock of an SQLite file stops everybody at that file."""
    uri = f"etcd://{etcd.endpoint}/{uuid.uuid4().hex}"
    async with asyncio.timeout(SECONDS_MAX), trial_of(tmp_path, acceptors, uri) as trial:
        numbers = of_these("call", await trial.steps("call"), acceptors)
        dooms = [trial.doom("call", n, how=signal.SIGSTOP) for n in numbers]
        dooms += [replace(trial.doom("call", n, how=signal.SIGSTOP), when="after") for n in numbers[::3]]
        await trial.run_all(dooms, lambda maker, doom: stopped(trial, maker, doom))
