"""When an acceptor may be added to those that hold a journal, and what it is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.records.journal_record import JournalStorage
from qjm_compat.acceptor.programs.sync_programs import SegmentsHeld
from qjm_compat.errors import BadJournalState
from qjm_compat.requests import Format, NamespaceInfo, RemoteEditLog
from qjm_compat.sync.joining import EPOCHS_AHEAD, epochs_above, format_to_join

STORAGE = JournalStorage(-67, 7, "CID", c_time=77)
GIVEN = NamespaceInfo(7, "CID")
TAKEN = NamespaceInfo(7, "CID", "", 77, -67)
ONE, TWO = RemoteEditLog(1, 10, writer_epoch=3), RemoteEditLog(11, 20, writer_epoch=3)
NEW = SegmentsHeld(STORAGE)
AT_WORK = SegmentsHeld(STORAGE, (ONE, TWO), last_promised_epoch=3, latest_epoch=3)


def joins(held: dict[str, SegmentsHeld], *names: str, given: NamespaceInfo = GIVEN) -> Format:
    return format_to_join("ns1", held, names or ("c",), given)


def refused(held: dict[str, SegmentsHeld], *names: str, given: NamespaceInfo = GIVEN) -> str:
    with pytest.raises(BadJournalState, match=r"^nothing was done: ") as refusal:
        joins(held, *names, given=given)
    return str(refusal.value)


def test_to_those_that_have_promised_nothing_others_are_added_where_they_know_of_every_majority() -> None:
    assert joins({"a": NEW}) == Format(TAKEN)
    assert joins({"a": NEW, "b": NEW}) == Format(TAKEN)
    told = refused({"a": NEW}, "b", "c")
    assert "If this journal was never written to, --force formats it everywhere" in told


def test_it_is_told_the_latest_promise_and_what_is_in_progress() -> None:
    one = replace(AT_WORK, last_promised_epoch=5, in_progress_from=21)
    assert joins({"a": AT_WORK, "b": one}) == Format(TAKEN, promised_epoch=5, joined_behind=21)
    assert epochs_above({"a": AT_WORK, "b": replace(one, latest_epoch=2000)}) == 2000 + EPOCHS_AHEAD


def test_one_of_another_namespace_is_refused() -> None:
    other = replace(AT_WORK, storage=replace(STORAGE, c_time=78))
    assert "the acceptors are of different namespaces: a: " in refused({"a": AT_WORK, "b": other})
    for given in (NamespaceInfo(8, "CID"), NamespaceInfo(7, "CID-2")):
        told = refused({"a": AT_WORK, "b": AT_WORK}, given=given)
        assert "acceptors a, b hold journal ns1 of namespace 7 and cluster CID, not of" in told


def test_where_a_majority_is_lost_the_way_out_is_told() -> None:
    told = refused({"a": AT_WORK}, "b", "c")
    assert "acceptor a holds journal ns1, and b, c would be added" in told
    assert "`bookledger journal export`" in told
    five = dict.fromkeys("abc", AT_WORK)
    assert joins(five, "d", "e").promised_epoch == 3
    refused(dict.fromkeys("ab", AT_WORK), "c", "d", "e")


def test_the_others_must_have_all_that_is_finalized() -> None:
    """With one that has nothing, and one that lags, a majority would not know of it."""
    told = refused({"a": AT_WORK, "b": replace(AT_WORK, logs=(ONE,))})
    assert (
        "acceptor b lacks segment 11-20, and with c added, a majority might lack it: run `bookledger journal sync`"
        in told
    )
    purged = replace(AT_WORK, logs=(), purged_below=21)
    assert joins({"a": AT_WORK, "b": purged}).promised_epoch == 3
    lagging = replace(AT_WORK, logs=(ONE,))
    assert joins({"a": AT_WORK, "b": AT_WORK, "c": AT_WORK, "d": lagging}, "e").promised_epoch == 3


def test_copies_that_contradict_each_other_are_not_added_to() -> None:
    other = replace(AT_WORK, logs=(ONE, RemoteEditLog(11, 19, writer_epoch=3)))
    assert "segment 11 is finalized differently" in refused({"a": AT_WORK, "b": other})


def test_an_upgrade_that_can_be_rolled_back_is_settled_first() -> None:
    told = refused({"a": replace(AT_WORK, keeps_rollback=True), "b": AT_WORK})
    assert "acceptor a can still roll back an upgrade, but c could not" in told


def test_one_that_joined_in_the_middle_of_a_segment_gets_it_before_another_joins() -> None:
    behind = replace(AT_WORK, behind=21)
    told = refused({"a": AT_WORK, "b": behind})
    assert "acceptor b itself joined the journal while segment 21 was in progress, and lacks it" in told
    assert joins({"a": AT_WORK, "b": AT_WORK, "c": AT_WORK, "d": behind}, "e").promised_epoch == 3
