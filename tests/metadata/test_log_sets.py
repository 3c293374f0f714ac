"""Sets of logs: how they grow, and how the members of a group share them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata import keys
from metadata.errors import BadRecord
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import records_pb2 as pb
from metadata.records.coordination import log_shares
from metadata.records.coordination.log_shares import LogShares, shared
from metadata.records.logs import log_codec, log_set_record
from metadata.records.logs.log_record import LogRecord, SetMember
from metadata.records.logs.log_set_record import LogSetRecord, LogSetStore, made_again
from metadata.records.logs.retention import Retention

RECORD = LogRecord(b"s" * 16, "orders", retention=Retention(age_seconds=5))
MODEL = log_codec.encode(RECORD)
SET = LogSetRecord(2, RECORD)

MEMBERS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


def counts(owners: tuple[str, ...], members: list[str]) -> list[int]:
    return sorted(owners.count(member) for member in members)


@given(st.lists(MEMBERS, min_size=1, max_size=6), st.integers(1, 20))
def test_logs_are_shared_evenly_and_as_few_as_possible_move(changes: list[list[str]], logs: int) -> None:
    owners: tuple[str, ...] = ()
    for members in changes:
        before, owners = owners, shared(owners, members, logs)
        if not members:
            assert owners == ("",) * logs
            continue
        least, more = divmod(logs, len(members))
        assert counts(owners, members) == sorted([least] * (len(members) - more) + [least + 1] * more)
        # Whoever had some keeps as many as an even share allows.
        held = sorted((before.count(member) for member in members), reverse=True)
        kept = sum(min(have, least + (n < more)) for n, have in enumerate(held))
        assert sum(now == then for now, then in zip(owners, before, strict=False) if then) == kept


def test_a_set_grows_to_a_multiple_and_new_logs_know_where_their_keys_were() -> None:
    record = SET.to_grow(6)
    assert record.to_grow(6) == record
    with pytest.raises(ValueError, match="is already growing to 6 logs"):
        record.to_grow(4)
    grown = record.grown((10, 20)).to_grow(12).grown((1, 2, 3, 4, 5, 6))
    assert [grown.before(log) for log in (0, 1, 2, 5, 6, 11)] == [
        None,
        None,
        (0, 10),
        (1, 20),
        (0, 1),
        (5, 6),
    ]
    for logs in (0, 2, 3, 1026):
        with pytest.raises(ValueError, match=f"to a multiple of that number, at most 1024, not to {logs}"):
            SET.to_grow(logs)


async def test_a_set_comes_back_from_the_store_as_it_was() -> None:
    store = LogSetStore(MemoryStore(MemoryData()))
    assert await store.read("orders") is None
    made = await store.create("orders", SET)
    grown = SET.wanting(replace(RECORD, legal_hold=True)).to_grow(4).grown((7, 0)).to_grow(8)
    changed = await store.change("orders", grown, made.version)
    assert await store.read("orders") == changed


def test_a_log_gets_what_its_set_has_and_never_what_it_had_before() -> None:
    log = LogRecord(b"l" * 16, "orders.1", member=SET.member(1))
    held = SET.wanting(replace(RECORD, legal_hold=True))
    ended = held.wanting(RECORD)
    assert SET.wanting(RECORD) == SET
    latest = log.as_its_set(ended.model, ended.member(1))
    assert (latest.retention, latest.legal_hold, latest.member) == (RECORD.retention, False, ended.member(1))
    assert latest.as_its_set(held.model, held.member(1)) == latest
    assert log_codec.decode("", log_codec.encode(latest)) == latest
    assert (latest.log_set, latest.is_of(b"s" * 16), latest.is_of(b"t" * 16)) == ("orders", True, False)


def test_a_set_is_made_again_from_any_of_its_logs_as_the_latest_knows_it() -> None:
    grown = SET.to_grow(4)
    logs = [replace(RECORD, name=f"orders.{n}", member=SET.member(n)) for n in (0, 1)]
    latest = replace(logs[1], legal_hold=True, epoch=7, member=grown.member(1))
    made = made_again([latest, logs[0]])
    assert (made.logs, made.is_unsettled, made.generation) == (4, True, grown.generation + 1)
    assert made.model == replace(RECORD, legal_hold=True)


def test_no_log_has_a_number_that_its_set_does_not_have() -> None:
    for fields in ((b"s", 0, 2, 0), (b"s" * 16, 2, 2, 0), (b"s" * 16, -1, 2, 0), (b"s" * 16, 0, 2, -1)):
        with pytest.raises(ValueError, match="invalid place in a set"):
            SetMember(*fields)


async def test_of_those_who_share_at_once_one_writes_and_the_others_look_again() -> None:
    store = MemoryStore(MemoryData())
    first, second = LogShares(store, "orders", "billing"), LogShares(store, "orders", "billing")
    assert await first.share(["a"], 3) == (("a", "a", "a"), 3)
    assert await second.share(["a"], 3) == (("a", "a", "a"), 3)
    assert await second.share(["a", "b"], 3) == (("a", "a", "b"), 3)
    assert await first.share(["b"], 4) == (("b", "b", "b", "b"), 3), "the group began with three"


@pytest.mark.parametrize(
    "value",
    [
        pb.LogSet(format_version=2, logs=1).SerializeToString(),
        pb.LogSet(format_version=1, logs=1).SerializeToString(),
        pb.LogSet(format_version=1, model=MODEL).SerializeToString(),
        pb.LogSet(
            format_version=1, model=MODEL, logs=3, growths=[pb.LogSetGrowth(ends=[1, 2])]
        ).SerializeToString(),
        pb.LogSet(
            format_version=1, model=MODEL, logs=2, growths=[pb.LogSetGrowth(ends=[-1])]
        ).SerializeToString(),
        b"\xff",
    ],
)
def test_what_cannot_be_trusted_is_refused(value: bytes) -> None:
    with pytest.raises(BadRecord, match="logsets/orders"):
        log_set_record.decode(keys.log_set("orders"), value)
    with pytest.raises(BadRecord, match="logshares/orders/billing"):
        log_shares.decode(keys.log_shares("orders", "billing"), b"\xff")
