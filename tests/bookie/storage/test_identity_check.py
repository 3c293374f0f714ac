"""A bookie that holds one ledger takes and gives nothing of another under its id (W8)."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.index.local_ledger_state import Fence, LocalLedgerState
from bookie.offline.rebuild import rebuild_index
from bookie.serving.directory import read_cookie
from bookie.storage.bookie import Bookie
from bookie.storage.core import Answer, BookieCore, Effect, Write
from bookie.wire.messages import Frame, LacRequest, Status
from metadata.memory_store import MemoryStore
from tests.bookie.bookies import append, bookie_on, read_request
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import formatted
from tests.support.aio import run

FIRST, SECOND, NONE = b"1" * 16, b"2" * 16, b""


def frame(entry_ids: list[int], identity: bytes, ledger_id: int = 7) -> Frame:
    return frame_of(ledger_id, entry_ids, lac=entry_ids[0] - 1)._replace(identity=identity)


def core_with(state: LocalLedgerState) -> BookieCore:
    return BookieCore(lambda _: state)


def is_refused(effects: list[Effect]) -> bool:
    (answer,) = effects
    return isinstance(answer, Answer) and answer.status is Status.WRONG_IDENTITY


@pytest.mark.parametrize("other", [SECOND, NONE])
def test_the_first_who_writes_says_which_ledger_it_is(other: bytes) -> None:
    core = core_with(LocalLedgerState(7))
    (write,) = core.append(frame([0], FIRST), "a")
    assert isinstance(write, Write) and write.record.identity == FIRST
    assert is_refused(core.append(frame([0], other), "b"))
    assert is_refused(core.append(frame([0], other)._replace(recovery=True), "c"))
    assert is_refused(core.fence(7, "d", identity=other))
    assert isinstance(core.append(frame([1], FIRST), "e")[0], Write)


def test_the_first_who_fences_says_it_too() -> None:
    core = core_with(state := LocalLedgerState(7))
    (write,) = core.fence(7, "a", identity=FIRST)
    assert isinstance(write, Write) and write.record.identity == FIRST
    assert is_refused(core.fence(7, "b", identity=SECOND))
    core.on_disk(write.record, "a")
    assert is_refused(core.append(frame([0], SECOND)._replace(recovery=True), "c"))
    assert state.fence is Fence.DURABLE


async def gives(bookie: Bookie, identity: bytes) -> tuple[Status, int, Status]:
    """What a read says, of how many entries, and a look at the last-add-confirmed."""
    page = await bookie.read(replace(read_request(7, 0, 9), identity=identity))
    lac = await bookie.last_add_confirmed(LacRequest("", 7, identity=identity))
    return page.status, len(page.columns), lac.status


REFUSED = (Status.WRONG_IDENTITY, 0, Status.WRONG_IDENTITY)


@pytest.mark.parametrize(
    "how", ["at once", "after a restart", "from the log alone", "with an index made anew"]
)
def test_of_another_ledger_nothing_is_given(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    def here() -> AbstractAsyncContextManager[Bookie]:
        directory = tmp_path / "b1"
        return bookie_on(directory, incarnation=read_cookie(directory).incarnation)

    async def write() -> None:
        await formatted(tmp_path, MemoryStore())
        async with here() as bookie:
            assert await append(bookie, frame([0, 1], FIRST), frame([2], FIRST)) == [Status.OK, Status.OK]
            await bookie.checkpoint()
            if how == "at once":
                await look(bookie)

    async def look(bookie: Bookie) -> None:
        assert await gives(bookie, FIRST) == (Status.OK, 3, Status.OK)
        assert await gives(bookie, SECOND) == REFUSED
        assert await gives(bookie, NONE) == REFUSED
        fence = await bookie.last_add_confirmed(LacRequest("", 7, fence=True, identity=SECOND))
        assert fence.status is Status.WRONG_IDENTITY and "metadata check" in fence.detail
        assert not bookie.is_fenced(7)
        waits = LacRequest("", 7, wait_beyond=9, wait_ms=60_000, identity=SECOND)
        assert (await bookie.last_add_confirmed(waits)).status is Status.WRONG_IDENTITY, (
            "it waits for nothing"
        )
        assert await append(bookie, frame([3], SECOND), frame([3], FIRST)) == [
            Status.WRONG_IDENTITY,
            Status.OK,
        ]

    async def again() -> None:
        async with here() as bookie:
            await look(bookie)

    with caplog.at_level(logging.ERROR):
        run(write())
        if how == "from the log alone":
            for file in (tmp_path / "b1" / "index").iterdir():
                file.unlink()
        if how == "with an index made anew":
            rebuild_index(tmp_path / "b1")
        if how != "at once":
            run(again())
    told = [
        record
        for record in caplog.records
        if "ledger 7 on this bookie is not the one requested" in record.getMessage()
    ]
    assert len(told) == 1, "it is logged once per interval"
