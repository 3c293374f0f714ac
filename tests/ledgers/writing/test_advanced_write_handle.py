"""Entry ids from the caller: which are refused, and who is told of progress."""

from __future__ import annotations

from typing import Any

import pytest

from ledgers.config import MIB
from ledgers.writing.advanced_write_handle import AdvancedWriteHandle
from tests.ledgers.writing.writing import turns, writer_of


@pytest.mark.parametrize("wrong", [-1, 2**63, True, 0.0, "0", None])
async def test_what_cannot_be_an_entry_id_is_refused_and_takes_no_place(wrong: Any) -> None:
    writer, *_ = await writer_of()
    advanced = AdvancedWriteHandle(writer, MIB)
    with pytest.raises(ValueError, match="cannot be an entry id"):
        await advanced.append_async(wrong, b"x")
    assert (advanced.first_gap, advanced.unconfirmed_bytes) == (0, 0)
    await writer.abandon()


async def test_who_follows_progress_is_told_of_a_filled_gap_of_confirmed_entries_and_of_the_end() -> None:
    writer, bookies, _ = await writer_of()
    advanced = AdvancedWriteHandle(writer, MIB)
    seen: list[tuple[int, int, bool]] = []
    advanced.on_progress = lambda: seen.append(
        (advanced.first_gap, advanced.last_add_confirmed, advanced.has_ended)
    )
    await advanced.append_async(0, b"x")
    assert seen == [(1, -1, False)]
    await turns()
    bookies.acknowledge(0, 1, 2)
    assert seen[1:] == [(1, 0, False)]
    await writer.abandon()
    assert seen[2:] == [(1, 0, True)]
