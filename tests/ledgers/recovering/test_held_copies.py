"""What bookies hold is found entry by entry: every verified copy once, and all between them as gaps."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.wire import Columns, EntryRange, ReadReply, Status, merge, of_payloads
from ledgers.integrity.digest import Crc32cDigester
from ledgers.protocol.fenced_reads import Replica
from ledgers.recovering.held_copies import ENTRY_ID_MAX, Gap, HeldCopies

DIGEST = Crc32cDigester(7)
PAGE_ENTRIES = 3


def entries(ids: Sequence[int]) -> Columns:
    return merge(of_payloads(i, [b"%03d" % i], DIGEST.sign(i, [b"%03d" % i])) for i in ids)


def forged(entry_id: int) -> Columns:
    return of_payloads(entry_id, [b"???"], DIGEST.sign(entry_id, [b"ok"]))


class Bookie:
    """Answers reads as a bookie does, a few entries a page."""

    def __init__(
        self,
        held: Sequence[int] = (),
        forged: Sequence[int] = (),
        damaged: Sequence[EntryRange] = (),
        *,
        fails_at: int = ENTRY_ID_MAX + 1,
        in_limbo: bool = False,
    ) -> None:
        self.held, self.forged, self.damaged = sorted(held), set(forged), tuple(damaged)
        self.fails_at, self.in_limbo = fails_at, in_limbo
        self.asked: list[int] = []

    def read(self, first: int, last: int) -> ReadReply | None:
        self.asked.append(first)
        if first >= self.fails_at:
            return None
        here = [n for n in self.held if first <= n <= last]
        page, more = here[:PAGE_ENTRIES], here[PAGE_ENTRIES:]
        through = more[0] - 1 if more else last
        columns = merge(
            [entries([n for n in page if n not in self.forged]), *map(forged, self._forged(page))]
        )
        damaged = tuple(d for d in self.damaged if d.last_entry >= first and d.first_entry <= through)
        if self.in_limbo:
            damaged = (EntryRange(first, through),)
        return ReadReply(Status.OK, columns, through, damaged)

    def _forged(self, page: Sequence[int]) -> list[int]:
        return [n for n in page if n in self.forged]


def salvaged(
    bookies: dict[str, Bookie], *, through: int = -1, last: int = ENTRY_ID_MAX
) -> tuple[list[int], list[Gap], HeldCopies]:
    """The ids of what is found, the gaps, and who found them."""
    copies = HeldCopies([Replica(name) for name in bookies], through=through, last_entry=last)
    found: list[int] = []
    gaps: list[Gap] = []
    while (step := copies.step()) is not None:
        match step:
            case Replica(name=name, asked_from=first):
                reply = bookies[name].read(first, last)
                if reply is None:
                    step.failed("it hangs")
                else:
                    step.answered(reply, DIGEST)
            case Gap():
                joined = gaps[-1].followed_by(step) if gaps else None
                gaps[-1:] = [joined] if joined else [*gaps[-1:], step]
            case columns:
                assert DIGEST.bad_entries(columns) == []
                found += columns.ids
    return found, gaps, copies


def test_what_one_bookie_has_is_asked_of_no_other() -> None:
    one, other = Bookie(range(7)), Bookie(range(7))
    found, gaps, _ = salvaged({"b1": one, "b2": other})
    assert (found, gaps) == (list(range(7)), [])
    assert other.asked == [7]  # whether there is more


def test_a_damaged_copy_is_told_from_one_that_is_not_there() -> None:
    damaged = Bookie([0, 9], damaged=[EntryRange(3, 5)])
    found, gaps, _ = salvaged({"b1": damaged, "b2": Bookie([0, 1])}, through=11)
    assert found == [0, 1, 9]
    assert gaps == [
        Gap(2, 2, (), ("b1", "b2")),
        Gap(3, 5, ("b1",), ("b2",)),
        Gap(6, 8, (), ("b1", "b2")),
        Gap(10, 11, (), ("b1", "b2")),
    ]


def test_damage_behind_the_last_copy_is_told_too() -> None:
    found, gaps, copies = salvaged({"b1": Bookie([0], damaged=[EntryRange(4, 6)])})
    assert (found, gaps) == ([0], [Gap(1, 3, (), ("b1",)), Gap(4, 6, ("b1",))])
    assert copies.unsure == []


def test_a_bookie_in_limbo_gives_what_it_has_and_is_unsure_of_the_rest() -> None:
    found, gaps, copies = salvaged({"b1": Bookie([0, 1, 4], in_limbo=True)}, through=5)
    assert found == [0, 1, 4]
    assert gaps == [Gap(2, 3, ("b1",)), Gap(5, 5, ("b1",))]
    assert copies.unsure == ["b1"]


def test_a_bookie_that_fails_half_way_leaves_the_rest_to_others() -> None:
    hangs, other = Bookie(range(9), fails_at=3), Bookie([4, 5])
    found, gaps, _ = salvaged({"b1": hangs, "b2": other})
    assert (found, gaps) == ([0, 1, 2, 4, 5], [Gap(3, 3, (), ("b2",))])


def test_nothing_past_the_end_of_a_closed_ledger_is_read() -> None:
    found, gaps, _ = salvaged({"b1": Bookie([0, 1, 2, 3])}, through=2, last=2)
    assert (found, gaps) == ([0, 1, 2], [])


BOOKIES = st.builds(
    lambda held, bad, fails: Bookie(held, [n for n in bad if n in held], fails_at=fails),
    st.sets(st.integers(0, 20)),
    st.sets(st.integers(0, 20), max_size=5),
    st.just(ENTRY_ID_MAX + 1),
)


@settings(deadline=None)
@given(st.lists(BOOKIES, max_size=4), st.integers(-1, 25))
def test_every_entry_is_found_or_in_one_gap(bookies: list[Bookie], through: int) -> None:
    named = {f"b{n}": one for n, one in enumerate(bookies)}
    found, gaps, _ = salvaged(named, through=through)
    good = {n for one in bookies for n in one.held if n not in one.forged}
    end = max([through, *good, *(n for one in bookies for n in one.forged)], default=-1)
    assert found == sorted(good)
    missing = [n for gap in gaps for n in range(gap.first_entry, gap.last_entry + 1)]
    assert missing == [n for n in range(end + 1) if n not in good]
    for gap in gaps:
        for n in range(gap.first_entry, gap.last_entry + 1):
            assert gap.unreadable == tuple(name for name, one in named.items() if n in one.forged)
