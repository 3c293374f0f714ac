"""All keys of a cluster are made again from what its bookies tell, and what they could not tell is said."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import pytest

from bookie.wire.messages import NO_NOTE, HeldNote
from bookledger.cluster.rebuilding.cluster_rebuild import BookieSource, Doubt, Rebuilding
from metadata import keys
from metadata.records import ledger_codec
from metadata.records import records_pb2 as pb
from metadata.records.cluster import Cookie
from metadata.records.coordination import election_record
from metadata.records.fragment import BookieRef, Fragment
from metadata.records.ledger_record import SEGMENT, LedgerRecord, Shape
from metadata.records.logs import log_codec
from metadata.records.logs.log_ledgers import LOG, SegmentOf
from metadata.records.logs.log_record import LogRecord
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import notes_for

COOKIES = [Cookie("cluster", f"b{n}", f"i{n}") for n in range(1, 4)]
BK1, BK2, BK3 = (BookieRef(one.bookie_id, one.incarnation) for one in COOKIES)


def ledger(ledger_id: int, *ensemble: BookieRef) -> LedgerRecord:
    fragments = (Fragment(0, ensemble, number=1),)
    identity = b"%016d" % ledger_id
    return LedgerRecord(ledger_id, Shape(len(ensemble), 1, 1), fragments, created_ms=1, identity=identity)


def source(cookie: Cookie, records: Sequence[LedgerRecord], more: Sequence[HeldNote] = ()) -> BookieSource:
    me = BookieRef(cookie.bookie_id, cookie.incarnation)
    held = [
        HeldNote(note.ledger_id, note.fragment.first_entry, note.identity, fragment_note.encode(note))
        for record in records
        for note in notes_for(record, me)
    ]

    async def notes() -> AsyncGenerator[HeldNote, None]:
        for one in sorted([*held, *more]):
            yield one

    return BookieSource(cookie, notes())


async def made(rebuilding: Rebuilding) -> dict[str, bytes]:
    return {item.key: item.value async for item in rebuilding.items()}


async def test_every_ledger_is_made_once_whoever_holds_it_and_ids_go_on_behind_all() -> None:
    records = [ledger(3, BK1, BK2), ledger(5, BK2), ledger(9, BK2, BK1), ledger(12, BK1)]
    rebuilding = Rebuilding([source(one, records) for one in COOKIES])
    found = await made(rebuilding)
    assert {key: value for key, value in found.items() if key.startswith(keys.LEDGERS)} == {
        keys.ledger(one.ledger_id): ledger_codec.encode(one) for one in records
    }
    assert next_id_in(found) == 13
    assert [
        Cookie.decode(key, found[key]) for key in sorted(found) if key.startswith(keys.COOKIES)
    ] == COOKIES
    assert list(found)[-1] == keys.LAYOUT and rebuilding.doubts == []
    assert (rebuilding.ledgers, rebuilding.closed) == (4, 0)


def next_id_in(found: dict[str, bytes]) -> int:
    return pb.NextId.FromString(found[keys.NEXT_LEDGER_ID]).next_id


async def test_a_ledger_of_which_only_entries_are_there_keeps_its_id_and_is_told() -> None:
    old = HeldNote(70, 0, b"", NO_NOTE)
    rebuilding = Rebuilding([source(COOKIES[0], [ledger(3, BK1)], [old]), source(COOKIES[1], [], [old])])
    found = await made(rebuilding)
    assert keys.ledger(70) not in found and rebuilding.unknown == 1
    assert next_id_in(found) == 71
    assert rebuilding.doubts == [Doubt("ledger 70", "it has entries, but no bookie has a note of it")]


async def test_a_note_that_cannot_be_read_is_told_and_others_of_the_ledger_count() -> None:
    spoiled = HeldNote(3, 0, b"", b"\xff\xff")
    rebuilding = Rebuilding([source(COOKIES[0], [], [spoiled]), source(COOKIES[1], [ledger(3, BK2)])])
    assert keys.ledger(3) in await made(rebuilding)
    assert [one.about for one in rebuilding.doubts] == ["ledger 3"]


async def test_a_bookie_that_only_ledgers_name_gets_its_cookie_and_is_told() -> None:
    rebuilding = Rebuilding([source(COOKIES[0], [ledger(3, BK1, BK3)])])
    found = await made(rebuilding)
    assert Cookie.decode("b3", found[keys.cookie("b3")]) == COOKIES[2]
    assert [one.about for one in rebuilding.doubts] == ["bookie b3"]


async def test_of_two_disks_of_one_name_the_successor_has_it() -> None:
    newer = replace(COOKIES[0], incarnation="newer", predecessors=("i1",))
    for sources in ([COOKIES[0], newer], [newer, COOKIES[0]]):
        found = await made(Rebuilding([source(one, [ledger(3, BK1)]) for one in sources]))
        assert Cookie.decode("b1", found[keys.cookie("b1")]) == newer
    strange = replace(COOKIES[0], incarnation="another")
    with pytest.raises(ValueError, match="two of these bookies are called b1"):
        await made(Rebuilding([source(one, []) for one in (COOKIES[0], strange)]))


async def test_bookies_of_two_clusters_are_no_cluster() -> None:
    other = replace(COOKIES[1], cluster_id="another")
    with pytest.raises(ValueError, match="belong to different clusters"):
        await made(Rebuilding([source(one, []) for one in (COOKIES[0], other)]))


def segment(ledger_id: int, first: int, *, log: LogRecord) -> LedgerRecord:
    """Of a log, closed with ten records."""
    said = {
        SEGMENT: SegmentOf(log.identity, first, 1).encoded(),
        LOG: log_codec.encode(log.without_segments()),
    }
    return replace(
        ledger(ledger_id, BK1).in_recovery().closed(9, 10), custom_metadata=said, created_ms=ledger_id
    )


async def test_logs_and_their_names_are_made_and_of_two_of_one_name_the_younger_has_it() -> None:
    old, young = (LogRecord(identity * 16, "orders") for identity in (b"o", b"y"))
    records = [segment(1, 0, log=old), segment(2, 0, log=young), segment(3, 10, log=young)]
    rebuilding = Rebuilding([source(COOKIES[0], records)])
    found = await made(rebuilding)
    assert log_codec.decode_name("", found[keys.log_name("orders")]) == young.identity
    record = log_codec.decode("", found[keys.log(young.identity)])
    assert [one.ledger_id for one in record.segments] == [2, 3] and not record.legal_hold
    renamed = log_codec.decode("", found[keys.log(old.identity)])
    assert log_codec.decode_name("", found[keys.log_name(renamed.name)]) == old.identity
    assert [one.about for one in rebuilding.doubts] == ["log orders"] and rebuilding.logs == 2


async def test_the_next_term_of_an_election_is_above_all_that_wrote_to_a_log() -> None:
    logs = [
        LogRecord(identity * 16, "orders", election="one", token=token)
        for identity, token in ((b"o", 7), (b"y", 5))
    ]
    rebuilding = Rebuilding([source(COOKIES[0], [segment(n, 0, log=log) for n, log in enumerate(logs)])])
    found = await made(rebuilding)
    assert election_record.decode("", found[keys.election("one")]).token > 7
    assert [log_codec.decode("", found[keys.log(log.identity)]).token for log in logs] == [7, 5]


async def test_of_a_log_that_may_miss_something_nothing_is_deleted() -> None:
    log = LogRecord(b"o" * 16, "orders")
    gap = [segment(1, 0, log=log), segment(3, 20, log=log)]
    for records in (gap, [segment(1, 0, log=log), ledger(9, BK1, BK2)]):
        rebuilding = Rebuilding([source(COOKIES[0], records)])
        assert log_codec.decode("", (await made(rebuilding))[keys.log(log.identity)]).legal_hold
        assert (
            Doubt("log orders", "it is now under legal hold, because a part of it may be missing")
            in rebuilding.doubts
        )
