"""Rounds over three acceptors: what they do, what they leave alone, and what they say of those that fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from qjm_compat.acceptor.copying import SegmentContent
from qjm_compat.acceptor.unavailable_acceptor import AbsentAcceptor
from qjm_compat.errors import JournalUnavailable
from qjm_compat.requests import Format
from qjm_compat.sync import syncer as syncer_module
from qjm_compat.sync.syncer import FAILURES_IN_A_ROW_MAX, JournalSyncer, Synced
from tests.qjm_compat.acceptor.one_writer import content, edits, logs, writer_of
from tests.qjm_compat.journals import JOURNAL, NAMESPACE
from tests.qjm_compat.model import ModelAcceptor, ModelDisk

NAMES = ("a", "b", "c")


async def unpaced(size: int) -> None:
    assert size


class Three:
    """`a` has segments 1-3, 4-6 and 7-9; the others are formatted."""

    def __init__(self) -> None:
        self.disks = {name: ModelDisk() for name in NAMES}

    def of(self, name: str) -> ModelAcceptor:
        """A process of its own."""
        return ModelAcceptor(JOURNAL, name, self.disks)

    async def begin(self, segments: int = 3, *formatted: str) -> None:
        for name in formatted or NAMES:
            await self.of(name).call(Format(NAMESPACE))
        writer = await writer_of(self.of("a"), 1)
        for first in range(1, 3 * segments, 3):
            await writer.write_final(first, first + 2)

    def syncer(self, *acceptors: Any, targets: str | None = None) -> JournalSyncer:
        return JournalSyncer(acceptors or [self.of(name) for name in NAMES], unpaced, targets)


async def test_a_round_copies_everything_everywhere_and_the_next_has_nothing_to_do() -> None:
    three = Three()
    await three.begin()
    sizes: list[int] = []
    acceptors = [three.of(name) for name in NAMES]
    syncer = JournalSyncer(acceptors, unpaced, on_bytes=sizes.append)
    done = await syncer.round()
    assert (done.copied, done.finalized, done.ops, done.problems, done.waits) == (6, 0, 18, [], [])
    assert done.bytes == sum(sizes) == 2 * len(edits(1, 9, 1))
    for name in NAMES:
        assert await logs(three.of(name)) == [(1, 3, False), (4, 6, False), (7, 9, False)]
        assert await content(three.of(name), 4) == edits(4, 6, 1)
    assert await syncer.round() == Synced()


async def test_only_the_targets_are_written_to() -> None:
    three = Three()
    await three.begin()
    assert (await three.syncer(targets="c").round()).copied == 3
    assert await logs(three.of("b")) == []


async def test_two_at_a_time_copy_nothing_twice() -> None:
    three = Three()
    await three.begin()
    rounds = await asyncio.gather(*(three.syncer().round() for _ in range(3)))
    assert sum(done.copied for done in rounds) == 6
    assert [done.problems for done in rounds] == [[], [], []]
    assert [len(three.disks[name].ledgers) for name in NAMES] == [3, 3, 3]


async def test_those_that_do_not_answer_and_those_that_hold_nothing_are_told_and_the_others_go_on() -> None:
    three = Three()
    await three.begin(1, "a", "b")
    away = AbsentAcceptor("d", JournalUnavailable("its disk is gone"))
    done = await three.syncer(three.of("a"), three.of("b"), three.of("c"), away).round()
    assert done.copied == 1
    assert done.problems == [
        "acceptor c is not formatted: `bookledger journal format` adds it to the journal",
        "acceptor d cannot be read: acceptor d could not be opened: its disk is gone",
    ]


async def test_finalized_copies_that_differ_are_a_problem_and_stay_as_they_are() -> None:
    three = Three()
    await three.begin(1)
    await (await writer_of(three.of("b"), 2)).write_final(1, 2)
    done = await three.syncer().round()
    assert done.problems == ["segment 1 is finalized differently: a has 1-3 of epoch 1, b has 1-2 of epoch 2"]
    assert await content(three.of("b"), 1) == edits(1, 2, 2)
    assert await logs(three.of("c")) == []


class Unreadable(ModelAcceptor):
    """One whose segments cannot be read, those of `only` or all."""

    only: frozenset[int] = frozenset()

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        if not self.only or start_txid in self.only:
            raise JournalUnavailable(f"ledger of {start_txid} is lost")
        return await super().read_segment(start_txid, from_txid, in_progress_ok=in_progress_ok)


class ReadingFromSource(ModelAcceptor):
    """Takes in what the source's own `read_segment` gives, as the product does."""

    async def take_finalized(self, wanted: Any, source: Any, pace: Any, is_wanted: Any) -> Any:
        content = await source.read_segment(wanted.start_txid, wanted.start_txid)
        await content.batches.aclose()
        return await super().take_finalized(wanted, source, pace, is_wanted)


async def test_a_source_that_fails_is_left_for_the_next() -> None:
    three = Three()
    await three.begin(2)
    await three.syncer(targets="b").round()
    broken = Unreadable(JOURNAL, "a", three.disks)
    target = ReadingFromSource(JOURNAL, "c", three.disks)
    done = await three.syncer(broken, three.of("b"), target, targets="c").round()
    assert (done.copied, done.problems) == (2, [])


async def test_a_segment_that_nobody_can_give_is_told_and_the_others_are_copied() -> None:
    three = Three()
    await three.begin(3)
    broken = Unreadable(JOURNAL, "a", three.disks)
    broken.only = frozenset({4})
    target = ReadingFromSource(JOURNAL, "c", three.disks)
    done = await three.syncer(broken, target, targets="c").round()
    assert done.copied == 2
    assert done.problems == ["acceptor c, segment 4-6 could not be copied: from a: ledger of 4 is lost"]


async def test_who_fails_again_and_again_is_left_to_the_next_round() -> None:
    three = Three()
    await three.begin(FAILURES_IN_A_ROW_MAX + 5)
    broken = Unreadable(JOURNAL, "a", three.disks)
    target = ReadingFromSource(JOURNAL, "c", three.disks)
    done = await three.syncer(broken, target, targets="c").round()
    assert len(done.problems) == FAILURES_IN_A_ROW_MAX + 1
    assert done.problems[-1] == "acceptor a failed 10 times in a row: its other segments were not tried"


async def test_an_acceptor_that_cannot_write_stops_nobody_else() -> None:
    class Full(ModelAcceptor):
        async def take_finalized(self, *arguments: Any) -> Any:
            raise JournalUnavailable("no ledger for segment")

    three = Three()
    await three.begin(FAILURES_IN_A_ROW_MAX + 2)
    done = await three.syncer(three.of("a"), Full(JOURNAL, "b", three.disks), three.of("c")).round()
    assert done.copied == FAILURES_IN_A_ROW_MAX + 2
    assert done.problems[0] == "acceptor b, segment 1-3 could not be copied: from a: no ledger for segment"
    assert done.problems[-1] == "acceptor b failed 10 times in a row: its other segments were not tried"


async def test_a_segment_that_its_writer_may_be_about_to_finalize_is_left_to_it_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    three = Three()
    await three.begin(1)
    own = await writer_of(three.of("b"), 1)
    await own.write_open(1, 2)
    syncer = three.syncer()
    for _ in range(2):
        done = await syncer.round()
        assert [str(step) for step in done.left_open] == ["acceptor b, segment 1-3"]
    assert done.problems == []
    monkeypatch.setattr(syncer_module, "OPEN_SECONDS_MAX", 0.0)
    done = await syncer.round()
    assert (done.copied, done.left_open) == (1, [])
    assert await content(three.of("b"), 1) == edits(1, 3, 1)


async def test_a_whole_call_waits_for_the_writer_and_then_does_without() -> None:
    three = Three()
    await three.begin(1)
    own = await writer_of(three.of("b"), 1)
    await own.write_open(1, 3)
    syncing = asyncio.create_task(three.syncer().until_done())
    await asyncio.sleep(0)
    await own.finalize(1, 3)
    done = await syncing
    assert (done.copied, done.finalized, done.problems, done.waits) == (1, 0, [], [])


async def test_what_is_purged_while_it_is_copied_is_not_taken_in() -> None:
    three = Three()
    await three.begin(2)

    async def purging(size: int) -> None:
        if await three.of("a").purged_below() == 0:
            await (await writer_of(three.of("a"), 5)).purge(4)

    done = await JournalSyncer([three.of("a"), three.of("b")], purging).round()
    assert await logs(three.of("b")) == [(4, 6, False)]
    assert (done.copied, done.problems) == (1, [])
    assert len(three.disks["b"].ledgers) == 1
