"""What a record says of a ledger's copy in an object store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata import keys
from metadata.errors import BadRecord
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import ledger_codec
from metadata.records import records_pb2 as pb
from metadata.records.cold import removals
from metadata.records.cold.cold_copy import ColdCopy, check_url, new_key
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from tests.support.present import there

BOOKIES = tuple(BookieRef(name, f"i-{name}") for name in "abc")
OPEN = LedgerRecord(7, Shape(3, 3, 2), (Fragment(0, BOOKIES), Fragment(5, BOOKIES, 100)), identity=b"i" * 16)
CLOSED = OPEN.closed(9, 200)
COPY = ColdCopy("s3://archive/ledgers", new_key(7, bytes(16)), (0, 5), 300, 1000)
STORED = CLOSED.uploading(COPY)


@pytest.mark.parametrize(
    "record", [STORED, STORED.without_copies(), CLOSED.uploading(replace(COPY, part_starts=()))]
)
def test_it_is_encoded_and_decoded(record: LedgerRecord) -> None:
    assert ledger_codec.decode("ledgers/0000000000000007", ledger_codec.encode(record)) == record


@pytest.mark.parametrize("url", ["s3://b", "gs://b/p", "az://c/p", "file:///srv/archive"])
def test_these_name_a_store(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "s3://",
        "archive",
        "http://10.0.0.1/x",
        "s3://key:secret@b",
        "s3://b?token=1",
        "s3://b#x",
        "file:///",
        "s3://a b",
    ],
)
def test_these_do_not_and_none_with_a_secret_is_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="object store") as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("starts", [(1,), (0, 0), (0, 5, 3), (5, 0)])
def test_parts_begin_at_rising_entries_from_0_on(starts: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match="first part must begin at entry 0, and each later part at a higher entry"
    ):
        replace(COPY, part_starts=starts)


def test_the_part_of_an_entry_is_the_one_that_begins_at_it_or_before() -> None:
    assert [COPY.part_of(n) for n in (0, 4, 5, 9)] == [0, 0, 1, 1]
    assert COPY.name_of(1) == f"{COPY.key}/1"


def test_only_a_closed_ledger_with_a_complete_copy_may_be_on_no_bookie() -> None:
    assert STORED.without_copies().has_no_ensembles and not STORED.has_no_ensembles
    nowhere = tuple(replace(one, ensemble=()) for one in CLOSED.fragments)
    for record in (OPEN, CLOSED, CLOSED.uploading(replace(COPY, part_starts=()))):
        with pytest.raises(ValueError, match="an ensemble must name 3"):
            replace(record, fragments=nowhere[: len(record.fragments)])
    with pytest.raises(ValueError, match="an ensemble must name 3"):
        replace(STORED, fragments=(STORED.fragments[0], nowhere[1]))
    with pytest.raises(ValueError, match="only a closed ledger"):
        replace(OPEN, cold=COPY)


def test_a_recalled_ledger_lacks_everything_everywhere_until_it_is_copied() -> None:
    recalled = STORED.without_copies().recalled(BOOKIES)
    assert recalled.is_on_no_bookie and not recalled.has_no_ensembles
    assert [[(one.first_entry, one.last_entry) for one in f.lacking] for f in recalled.fragments] == [
        [(0, 4)] * 3,
        [(5, 9)] * 3,
    ]
    assert not recalled.without_lacking(0, 0, 9).is_on_no_bookie


def test_a_record_with_a_copy_that_cannot_be_is_not_trusted() -> None:
    message = ledger_codec.to_message(STORED)
    message.cold.key = "../../etc/passwd"
    with pytest.raises(BadRecord):
        ledger_codec.decode("ledgers/0000000000000007", message.SerializeToString())


@pytest.mark.parametrize(
    ("key", "url"), [("..", "file:///archive"), ("", "file:///archive"), (COPY.key, "nowhere")]
)
async def test_an_entry_that_may_name_other_files_than_a_copys_is_skipped(key: str, url: str) -> None:
    store = MemoryStore(MemoryData())
    await removals.add(store, 7, COPY)
    found = there(await store.get(keys.cold_removal(COPY.key)))
    message = pb.ColdRemoval.FromString(found.value)
    message.url = url
    await store.delete(found.key, found.version)
    await store.create(f"{keys.COLD_REMOVALS}{key}", message.SerializeToString())
    assert [one async for one in removals.list_removals(store)] == []
