"""Hadoop's fault tests of its journal (TestQJMWithFaults, TestEpochsAreUnique), over one acceptor and over three.

J1: each writer has an epoch of its own, and they rise. What one acceptor promised: contracts/journal/promises.py.
J2: no two writers get the same transaction acknowledged.
J3: what was acknowledged is there after every recovery. Acceptors that are lost and replaced:
simulation/journals/test_joining_schedules.py.

On models of acceptors they run in full; on real bookies in a smaller size, and in full with
BOOKLEDGER_SOAK_SECONDS set (`make soak-journals`).
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import product
from pathlib import Path

import pytest

from qjm_compat.aio import QuorumJournalManager
from qjm_compat.errors import BadJournalState, JournalError, QuorumFailed
from tests.qjm_compat.auditor import differing_copies, frames_of
from tests.qjm_compat.faulty import (
    Down,
    EpochFaults,
    FailsAt,
    OnBookies,
    OnModels,
    Plan,
    Setting,
    UpAndDown,
    check_only_injected,
)
from tests.qjm_compat.journals import NAMESPACE, frames, write, write_segment
from tests.support.aio import run
from tests.support.in_process import InProcessCluster, cluster_of

IN_FULL = "BOOKLEDGER_SOAK_SECONDS" in os.environ
WRITERS = 500
WRITERS_ON_BOOKIES = WRITERS if IN_FULL else 25
SEGMENTS_PER_WRITER = 2
FLUSHES_PER_SEGMENT = 4
KEPT_TXNS = 100
TXNS_LOOKED_AT = 20
CALLS_OF_A_WORKLOAD = 10
EPOCH_ROUNDS = 20
SOAK_SECONDS_MAX = 1200

either_form = pytest.mark.parametrize("acceptors", [1, 3])


def without_faults(setting: Setting) -> QuorumJournalManager:
    return setting.manager([Plan() for _ in range(setting.acceptors)])


async def formatted(setting: Setting) -> None:
    async with without_faults(setting) as manager:
        await manager.format(NAMESPACE)


async def recovered_up_to(manager: QuorumJournalManager, from_txid: int = 1) -> int:
    """Becomes the writer; the last finalized transaction, all from `from_txid` on being there without a gap."""
    await manager.recover_unfinalized_segments()
    last = from_txid - 1
    for stream in await manager.select_input_streams(from_txid):
        assert stream.first_txid == last + 1
        last = stream.last_txid
    return last


async def on_bookies(path: Path, scenario: Callable[[InProcessCluster], Awaitable[None]]) -> None:
    async with cluster_of(path, 3) as cluster:
        await scenario(cluster)


# --- every pair of failed calls -------------------------------------------------------------------------------


async def workload(manager: QuorumJournalManager) -> int:
    """Two segments of three transactions; the last one that was confirmed."""
    acked = 0
    try:
        await manager.recover_unfinalized_segments()
        for first in (1, 4):
            await write_segment(manager, first, first + 2)
            acked = first + 2
    except QuorumFailed as error:
        check_only_injected(error)
    return acked


async def calls_of_a_workload(setting: Setting) -> list[int]:
    plans = [Plan() for _ in range(setting.acceptors)]
    async with setting.manager(plans) as manager:
        await manager.format(NAMESPACE)
        assert await workload(manager) == 6
    return [plan.calls for plan in plans]


async def recovers_after(setting: Setting, first: int, second: int) -> None:
    """One call of each number fails, at two acceptors, or both at the only one; the next writer loses nothing."""
    plans = [FailsAt() for _ in range(setting.acceptors)]
    async with setting.manager(plans) as manager:
        await manager.format(NAMESPACE)
        plans[0].numbers = frozenset({first})
        plans[1 % setting.acceptors].numbers |= {second}
        acked = await workload(manager)
    async with without_faults(setting) as manager:
        recovered = await recovered_up_to(manager)
        assert recovered >= acked
        await write_segment(manager, recovered + 1, recovered + 3)


NUMBERS = range(1, CALLS_OF_A_WORKLOAD + 1)
PAIRS_ON_BOOKIES = [(n, m) for n, m in product(NUMBERS, repeat=2) if IN_FULL or (n + 2 * m) % 9 == 0]


@either_form
def test_a_workload_makes_ten_calls_to_every_acceptor(acceptors: int) -> None:
    assert run(calls_of_a_workload(OnModels(acceptors))) == [CALLS_OF_A_WORKLOAD] * acceptors


@either_form
async def test_J3_after_every_pair_of_failed_calls_nothing_confirmed_is_lost(acceptors: int) -> None:
    for first, second in product(NUMBERS, repeat=2):
        await recovers_after(OnModels(acceptors), first, second)


@either_form
def test_soak_journals_J3_after_pairs_of_failed_calls_on_bookies_nothing_confirmed_is_lost(
    tmp_path: Path, acceptors: int
) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        for first, second in PAIRS_ON_BOOKIES:
            await recovers_after(OnBookies(cluster.uri, acceptors, f"ns-{first}-{second}"), first, second)

    run(on_bookies(tmp_path, scenario), timeout_seconds=SOAK_SECONDS_MAX if IN_FULL else 60)


# --- writer after writer ---------------------------------------------------------------------------------------


class Writers:
    """Writers one after the other, each with faults of its own, and what was confirmed to them."""

    def __init__(self, setting: Setting, seed: int, txns_max: int) -> None:
        self.confirmed: dict[int, bytes] = {}
        self.stopped_by_faults = 0
        self.kept_from = 1
        self._setting = setting
        self._txns_max = txns_max
        self._rng = random.Random(seed)

    @property
    def last_confirmed(self) -> int:
        return max(self.confirmed, default=0)

    async def run(self, writers: int) -> None:
        await formatted(self._setting)
        for number in range(writers):
            plans = [UpAndDown(self._rng.getrandbits(64)) for _ in range(self._setting.acceptors)]
            async with self._setting.manager(plans) as manager:
                try:
                    await self._write(manager, number)
                except JournalError as error:
                    check_only_injected(error)
                    self.stopped_by_faults += 1

    async def check(self) -> None:
        """All that was confirmed and not purged is in the journal, and the same wherever it is final."""
        async with without_faults(self._setting) as manager:
            assert await recovered_up_to(manager, self.kept_from) >= self.last_confirmed
            await self._check_edits(manager, self.kept_from)
            assert not await differing_copies(manager)

    async def _check_edits(self, manager: QuorumJournalManager, from_txid: int) -> None:
        """What was confirmed is there with its own bytes."""
        found = await finalized_edits(manager, from_txid)
        for txid in range(from_txid, self.last_confirmed + 1):
            assert found[txid] == self.confirmed.get(txid, found[txid])

    async def _write(self, manager: QuorumJournalManager, number: int) -> None:
        recovered = await recovered_up_to(manager, self.kept_from)
        assert recovered >= self.last_confirmed
        await self._check_edits(manager, max(self.kept_from, self.last_confirmed - TXNS_LOOKED_AT + 1))
        next_txid = recovered + 1
        if next_txid > KEPT_TXNS and number % 10 == 1:
            self.kept_from = next_txid - KEPT_TXNS
            manager.purge_logs_older_than(self.kept_from)
        for _ in range(SEGMENTS_PER_WRITER):
            next_txid = await self._write_segment(manager, next_txid, f"w{number}")

    async def _write_segment(self, manager: QuorumJournalManager, first_txid: int, by: str) -> int:
        out = await manager.start_log_segment(first_txid)
        for _ in range(FLUSHES_PER_SEGMENT):
            first = out.next_txid
            last = await write(out, self._rng.randint(1, self._txns_max), by)
            for txid in range(first, last + 1):
                assert txid not in self.confirmed, f"txid {txid} was confirmed to two writers (J2)"
                self.confirmed[txid] = frames(txid, 1, by)
        await out.close()
        await manager.finalize_log_segment(first_txid, last)
        return out.next_txid


async def finalized_edits(manager: QuorumJournalManager, from_txid: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for stream in await manager.select_input_streams(from_txid):
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                found |= {batch.first_txid + n: bytes(frame) for n, frame in enumerate(frames_of(batch))}
    return found


async def random_writers(setting: Setting, writers: int, txns_max: int = 1) -> None:
    seed = int(os.environ.get("BOOKLEDGER_SOAK_SEED", "1"))
    print(f"seed {seed}; repeat with BOOKLEDGER_SOAK_SEED={seed}")
    done = Writers(setting, seed, txns_max)
    await done.run(writers)
    await done.check()
    assert done.last_confirmed > 0
    if writers == WRITERS:  # of a few it is left to chance
        assert done.last_confirmed > writers / 2
        assert writers / 10 < done.stopped_by_faults < writers


@pytest.mark.parametrize("txns_max", [1, 3])
@either_form
def test_J3_five_hundred_writers_with_faults_lose_nothing_confirmed(acceptors: int, txns_max: int) -> None:
    run(random_writers(OnModels(acceptors), WRITERS, txns_max), timeout_seconds=120)


@either_form
def test_soak_journals_J3_writers_with_faults_on_bookies_lose_nothing_confirmed(
    tmp_path: Path, acceptors: int
) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        await random_writers(OnBookies(cluster.uri, acceptors), WRITERS_ON_BOOKIES)

    run(on_bookies(tmp_path, scenario), timeout_seconds=SOAK_SECONDS_MAX if IN_FULL else 60)


# --- a writer that is in doubt ----------------------------------------------------------------------------------


async def test_J2_a_writer_whose_flush_failed_gives_its_txids_to_no_other_edits() -> None:
    """Copies of one writer's edits are taken for equal: it must write each transaction once."""
    plans = [Down() for _ in range(3)]
    setting = OnModels(3)
    async with setting.manager(plans) as manager:
        await manager.format(NAMESPACE)
        await manager.recover_unfinalized_segments()
        out = await manager.start_log_segment(1)
        plans[1].is_down = plans[2].is_down = True
        with pytest.raises(QuorumFailed):
            await write(out, 1, "first")
        await out.abort()
        plans[1].is_down = plans[2].is_down = False
        with pytest.raises(BadJournalState, match="must recover segments"):
            await manager.start_log_segment(1)
    async with without_faults(setting) as manager:
        assert await recovered_up_to(manager) == 1
        await write_segment(manager, 2, 3)
        assert not await differing_copies(manager)


async def test_a_writer_that_is_in_no_doubt_begins_again_after_an_aborted_stream() -> None:
    async with without_faults(OnModels(3)) as manager:
        await manager.format(NAMESPACE)
        await manager.recover_unfinalized_segments()
        out = await manager.start_log_segment(1)
        await write(out, 2)
        await out.abort()
        await manager.finalize_log_segment(1, 2)
        await write_segment(manager, 3, 4)


# --- epochs ----------------------------------------------------------------------------------------------------


async def epoch_of_a_new_writer(setting: Setting, rng: random.Random) -> int:
    """Writers try until one gets an epoch."""
    while True:
        async with setting.manager([EpochFaults(rng) for _ in range(setting.acceptors)]) as manager:
            try:
                return await manager.create_new_unique_epoch()
            except QuorumFailed as error:
                check_only_injected(error)


async def epochs_rise(setting: Setting, seed: int) -> Sequence[int]:
    await formatted(setting)
    epochs: list[int] = []
    for _ in range(5):
        async with without_faults(setting) as manager:
            epochs.append(await manager.create_new_unique_epoch())
    assert epochs == [1, 2, 3, 4, 5]
    rng = random.Random(seed)
    for _ in range(EPOCH_ROUNDS):
        epochs.append(await epoch_of_a_new_writer(setting, rng))
    assert epochs == sorted(set(epochs))
    return epochs


@either_form
def test_J1_epochs_are_unique_and_rise_although_calls_fail(acceptors: int) -> None:
    found = [run(epochs_rise(OnModels(acceptors), seed))[-1] for seed in range(20)]
    if acceptors == 3:
        assert max(found) > 5 + EPOCH_ROUNDS, "no epoch was ever left out: no fault came where it matters"


@either_form
def test_soak_journals_J1_epochs_on_bookies_are_unique_and_rise(tmp_path: Path, acceptors: int) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        await epochs_rise(OnBookies(cluster.uri, acceptors), 7)

    run(on_bookies(tmp_path, scenario))
