"""What is appended between two steps of a writer: frames of what came, in order, whatever came with a head."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire import of_payloads
from ledgers.integrity.digest import Crc32cDigester, HmacDigester
from ledgers.writing.append_backlog import AppendBacklog

PARTS = st.lists(
    st.tuples(st.sampled_from([b"", b"h1", b"h22"]), st.lists(st.binary(max_size=3), max_size=4))
)


@given(PARTS)
def test_entries_come_out_as_they_came_in_and_are_counted(parts: list[tuple[bytes, list[bytes]]]) -> None:
    backlog, twin = AppendBacklog(), list[bytes]()
    for head, payloads in parts:
        entries = [head + payload for payload in payloads]
        if not head and not backlog.head and len(payloads) == 1:
            backlog.payloads.append(payloads[0])
            backlog.size_bytes += len(payloads[0])
        else:
            backlog.add_all(payloads, sum(map(len, entries)), head)
        twin += entries
        assert (backlog.entries, backlog.size_bytes) == (len(twin), sum(map(len, twin)))
    assert [head + payload for head, batch in backlog.batches() for payload in batch] == twin
    assert (backlog.entries, backlog.size_bytes) == (0, 0)


def test_what_comes_with_another_head_is_added_without_a_look_at_all_that_waits() -> None:
    """Single records of a log have one each: thousands in one turn of the loop would take seconds."""
    backlog = AppendBacklog()
    backlog.add_all([b"a"], 3, b"h1")
    backlog.add_all([b"b"], 3, b"h2")
    waiting = backlog.payloads
    backlog.add_all([b"c"], 3, b"h3")
    assert backlog.payloads is waiting
    assert list(backlog.batches()) == [(b"", [b"h1a", b"h2b", b"h3c"])]


def test_a_head_counts_for_where_a_frame_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ledgers.protocol.pending", "ledgers.writing.append_backlog"):
        monkeypatch.setattr(f"{module}.FRAME_BYTES_MAX", 20)
    backlog = AppendBacklog()
    backlog.add_all([b"abc", b"de", b"f"], 36, b"0123456789")
    batches = backlog.batches()
    assert next(batches) == (b"0123456789", [b"abc"])
    assert (backlog.entries, backlog.size_bytes) == (3, 36), "counted until the machine has it"
    assert list(batches) == [(b"0123456789", [b"de"]), (b"0123456789", [b"f"])]
    assert (backlog.entries, backlog.size_bytes) == (0, 0)


@pytest.mark.parametrize("digest", [Crc32cDigester(7), HmacDigester(7, b"secret")])
def test_entries_with_a_head_are_the_same_bytes_as_if_it_were_a_part_of_each(
    digest: Crc32cDigester | HmacDigester,
) -> None:
    for payloads in ([b"a"], [b"", b"bc", b"d"]):
        whole = [b"head" + payload for payload in payloads]
        signed = digest.sign(5, payloads, b"head")
        assert of_payloads(5, payloads, signed, b"head") == of_payloads(5, whole, digest.sign(5, whole))
