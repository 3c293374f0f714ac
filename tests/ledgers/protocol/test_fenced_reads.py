"""What the answers of fenced bookies say of an entry (rules R3, R6), against a plain reading of the rule."""

from __future__ import annotations

from itertools import product

import pytest

from bookie.wire import NO_ENTRIES, Columns, EntryRange, ReadReply, Status, merge, of_payloads
from ledgers.integrity.digest import Crc32cDigester
from ledgers.protocol.fenced_reads import EntryVerdict, FencedReads
from ledgers.protocol.striping import Striping
from metadata.records.ledger_record import Shape

DIGEST = Crc32cDigester(7)


def entries(*ids: int) -> Columns:
    return merge(of_payloads(i, [b"%d" % i], DIGEST.sign(i, [b"%d" % i])) for i in ids)


def forged(entry_id: int) -> Columns:
    return of_payloads(entry_id, [b"forged"], DIGEST.sign(entry_id, [b"true"]))


def of_shape(*sizes: int) -> FencedReads:
    shape = Shape(*sizes)
    return FencedReads(Striping(shape), [f"b{n}" for n in range(shape.ensemble_size)], DIGEST)


def copy_of(reads: FencedReads, entry_id: int) -> tuple[bytes, bytes]:
    copy = reads.copy_of(entry_id)
    assert copy is not None
    return bytes(copy[0]), bytes(copy[1])


ANSWERS = {
    "present": ReadReply(Status.OK, entries(0), 9),
    "absent": ReadReply(Status.OK, NO_ENTRIES, 9),
    "no ledger": ReadReply(Status.NO_SUCH_LEDGER, NO_ENTRIES, 9),
    "damaged": ReadReply(Status.OK, NO_ENTRIES, 9, (EntryRange(0, 0),)),
    "forged": ReadReply(Status.OK, forged(0), 9),
    "io error": ReadReply(Status.IO_ERROR),
    "limbo": ReadReply(Status.UNKNOWN),
    "silent": None,
    "failed": "timeout",
}
NEGATIVE = ("absent", "no ledger")


@pytest.mark.parametrize("acks", [1, 2, 3])
def test_the_verdict_follows_from_the_answers_and_nothing_else(acks: int) -> None:
    """R3, R6, F11, F12: every combination of answers of three bookies."""
    for said in product(ANSWERS, repeat=3):
        reads = of_shape(3, 3, acks)
        for position, what in enumerate(said):
            answer = ANSWERS[what]
            if isinstance(answer, ReadReply):
                reads.answered(position, answer)
            elif answer is not None:
                reads.failed(position, answer)
        negatives = sum(what in NEGATIVE for what in said)
        if "present" in said:
            expected = EntryVerdict.PRESENT
        elif negatives >= 3 - acks + 1:
            expected = EntryVerdict.ABSENT
        else:
            expected = EntryVerdict.OPEN if "silent" in said else EntryVerdict.UNDECIDED
        assert reads.verdict(0) is expected, said


def test_only_the_write_set_of_an_entry_is_heard() -> None:
    """W1: 4/2/2, entry 1 belongs to positions 1 and 2."""
    reads = of_shape(4, 2, 2)
    for position in (0, 3):
        reads.answered(position, ReadReply(Status.OK, entries(1), 9))
    assert reads.verdict(1) is EntryVerdict.OPEN
    assert reads.copy_of(1) is None
    reads.answered(2, ReadReply(Status.OK, NO_ENTRIES, 9))
    assert reads.verdict(1) is EntryVerdict.ABSENT


def test_a_page_says_nothing_of_entries_beyond_it() -> None:
    """A page ends where its bytes end."""
    reads = of_shape(3, 3, 2)
    for position in range(3):
        reads.answered(position, ReadReply(Status.OK, NO_ENTRIES, 4))
    assert reads.verdict(4) is EntryVerdict.ABSENT
    assert reads.verdict(5) is EntryVerdict.OPEN


def test_a_copy_is_given_as_it_was_read() -> None:
    reads = of_shape(3, 3, 2)
    reads.answered(1, ReadReply(Status.OK, entries(0, 1), 9))
    assert copy_of(reads, 1) == (b"1", DIGEST.sign(1, [b"1"]))


def test_a_good_copy_beside_a_forged_one_is_found() -> None:
    reads = of_shape(3, 3, 2)
    reads.answered(0, ReadReply(Status.OK, forged(0), 9))
    reads.answered(1, ReadReply(Status.OK, entries(0), 9))
    assert copy_of(reads, 0) == (b"0", DIGEST.sign(0, [b"0"]))


def test_a_page_that_does_not_reach_what_was_asked_for_is_a_failure() -> None:
    reads = of_shape(3, 3, 2)
    reads.replicas[0].asked_from = 4
    reads.answered(0, ReadReply(Status.OK, NO_ENTRIES, 3))
    assert reads.replicas[0].failure == "its page covers no entry"


def test_a_refusal_is_the_end_of_asking() -> None:
    reads = of_shape(3, 3, 2)
    reads.answered(0, ReadReply(Status.UNAUTHORIZED, detail="no"))
    assert reads.replicas[0].failure == "unauthorized: no"


def test_the_description_says_what_each_bookie_of_the_write_set_answered() -> None:
    reads = of_shape(4, 4, 2)
    reads.answered(0, ReadReply(Status.OK, NO_ENTRIES, 9))
    reads.answered(1, ReadReply(Status.OK, forged(0), 9))
    reads.answered(2, ReadReply(Status.IO_ERROR, detail="sector 5"))
    assert reads.describe(0) == (
        "b0: has no such entry, b1: its copy is damaged, b2: i/o error: sector 5, b3: no answer yet"
    )
