"""What a page lacks is denied once the index is known to be whole; holdings tell bytes of payload alone."""

from __future__ import annotations

import pytest

from bookie.storage.bookie import Bookie
from bookie.wire.messages import Credential, Frame, Holding, HoldingsReply, HoldingsRequest, Status
from tests.bookie.bookies import append, entries, read
from tests.bookie.entries import columns_of, frame_of, lac_of
from tests.bookie.logs import INCARNATION

OK = Status.OK


async def test_the_index_is_asked_once_in_a_life_whether_it_has_lost_what_a_page_lacks(
    bookie: Bookie, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R6: it takes time with the ledger's frames, so a page that lacks nothing does not wait for it."""
    asked: list[int] = []

    def is_whole(ledger_id: int) -> bool:
        asked.append(ledger_id)
        return True

    await append(bookie, frame_of(7, [0, 1]), frame_of(8, [0]))
    monkeypatch.setattr(bookie.index, "is_whole", is_whole)
    assert await read(bookie, 7, 0, 1) == entries(7, [0, 1])
    assert asked == []
    for ledger_id in (7, 8, 7, 8):
        await read(bookie, ledger_id, 0, 9)
    assert asked == [7, 8]


@pytest.mark.parametrize("digest", [b"", bytes(8)])
@pytest.mark.parametrize("verifier", [b"", bytes(32)])
async def test_holdings_tell_the_bytes_of_payload_and_of_nothing_else_in_a_record(
    bookie: Bookie, digest: bytes, verifier: bytes
) -> None:
    columns = columns_of([(n, bytes(20), digest) for n in range(4)])
    frame = Frame(7, columns, lac_of(-1) if digest else None, credential=Credential(verifier))
    assert await append(bookie, frame) == [OK]
    reply = await bookie.holdings(HoldingsRequest(INCARNATION, 7, 0, 9, 1000))
    assert reply == HoldingsReply(OK, (Holding(0, 3, 4, 80),), 9)
