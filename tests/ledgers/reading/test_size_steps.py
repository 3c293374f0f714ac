"""Steps say how many bytes lie before an entry, from what bookies tell of their runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire import Holding, HoldingsReply, HoldingsRequest, Status
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.errors import BookieUnavailable
from ledgers.reading.size_steps import SizeStep, SizeSteps, steps_of
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.ledger_store import LedgerStore
from tests.ledgers.reading.reading import BK0, BK1, BK2, DictionaryBookies
from tests.support.aio import run

SMALL, LARGE = 10, 100_000
STEP = 50_000


class Told:
    """Bookies that tell of the entries they hold of a striped ledger, one run an entry, few runs a reply."""

    def __init__(self, sizes: Sequence[int], shape: Shape, ensemble: Sequence[BookieRef]) -> None:
        self.sizes = sizes
        self.away: set[BookieRef] = set()
        self.older: set[BookieRef] = set()
        self.stuck: set[BookieRef] = set()
        self.asked: list[BookieRef] = []
        self.runs_a_reply = 3
        self._holds = {
            bookie: {
                i for i in range(len(sizes)) if (position - i) % shape.ensemble_size < shape.write_quorum
            }
            for position, bookie in enumerate(ensemble)
        }

    async def __call__(self, bookie: BookieRef, request: HoldingsRequest) -> HoldingsReply:
        self.asked.append(bookie)
        if bookie in self.away:
            raise BookieUnavailable(str(bookie), "it is away")
        if bookie in self.older:
            return HoldingsReply(Status.BAD_REQUEST)
        if bookie in self.stuck:
            return HoldingsReply(Status.OK, (), request.first_entry - 1)
        held = [i for i in sorted(self._holds[bookie]) if request.first_entry <= i <= request.last_entry]
        runs = tuple(Holding(i, i, 1, self.sizes[i]) for i in held[: self.runs_a_reply])
        is_all = len(held) <= self.runs_a_reply
        return HoldingsReply(Status.OK, runs, request.last_entry if is_all else runs[-1].last_entry)


SKEWED = [SMALL] * 60 + [LARGE] * 6 + [SMALL] * 60


def record_of(sizes: Sequence[int], shape: Shape, second_at: int = 30) -> LedgerRecord:
    ensemble = (BK0, BK1, BK2)
    fragments = (Fragment(0, ensemble), Fragment(second_at, ensemble, sum(sizes[:second_at])))
    return LedgerRecord(
        ledger_id=7,
        shape=shape,
        fragments=fragments,
        state=LedgerState.CLOSED,
        last_entry=len(sizes) - 1,
        length_bytes=sum(sizes),
    )


def steps(bookies: Told, shape: Shape, first: int = 0, last: int | None = None) -> list[SizeStep]:
    async def ask() -> list[SizeStep]:
        store = MemoryStore()
        cluster = Cluster(store, LedgerStore(store), DictionaryBookies([]), ClientConfig())
        measuring = SizeSteps(cluster, bookies, record_of(bookies.sizes, shape), STEP)
        return await measuring.of(first, len(bookies.sizes) - 1 if last is None else last)

    return run(ask())


def before(found: Sequence[SizeStep], entry_id: int) -> float:
    """As who cuts a ledger reads them."""
    at = bisect_right([step.entry_id for step in found], entry_id)
    if at == len(found):
        return found[-1].bytes_before
    (low, less), (high, more) = found[at - 1], found[at]
    return less + (more - less) * (entry_id - low) / (high - low)


SHAPES = [Shape(3, 3, 2), Shape(3, 2, 2), Shape(3, 1, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_steps_follow_the_sizes_of_entries_however_different(shape: Shape) -> None:
    found = steps(Told(SKEWED, shape, (BK0, BK1, BK2)), shape)
    true = [0, *accumulate(SKEWED)]
    assert found[0] == (0, 0)
    assert found[-1] == (len(SKEWED), sum(SKEWED))
    assert all(low.entry_id < high.entry_id for low, high in pairwise(found))
    assert max(abs(before(found, i) - true[i]) for i in range(len(SKEWED) + 1)) <= LARGE


def test_part_of_a_fragment_is_told_as_the_bookies_tell_it() -> None:
    shape = Shape(3, 2, 2)
    found = steps(Told(SKEWED, shape, (BK0, BK1, BK2)), shape, 58, 70)
    assert found[0] == (58, 0)
    assert found[-1].entry_id == 71
    assert found[-1].bytes_before == pytest.approx(sum(SKEWED[58:71]), rel=0.01)


def test_one_bookie_that_has_all_is_enough_and_the_next_is_asked_where_it_is_away() -> None:
    shape = Shape(3, 3, 2)
    bookies = Told(SKEWED, shape, (BK0, BK1, BK2))
    whole = steps(bookies, shape)
    assert set(bookies.asked) == {BK0}
    bookies.away, bookies.older, bookies.asked = {BK0}, {BK1}, []
    assert steps(bookies, shape) == whole
    assert bookies.asked.count(BK0) == 1, "asked once, and not again for the second fragment"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("how", ["away", "older", "stuck"])
def test_what_no_bookie_tells_counts_as_spread_evenly(shape: Shape, how: str) -> None:
    bookies = Told(SKEWED, shape, (BK0, BK1, BK2))
    setattr(bookies, how, {BK0, BK1, BK2})
    assert steps(bookies, shape) == [(0, 0), (30, 300), (126, sum(SKEWED))]


def test_a_bookie_that_tells_of_one_entry_at_a_time_is_asked_until_it_has_told_of_all() -> None:
    shape = Shape(3, 3, 2)
    bookies = Told(SKEWED, shape, (BK0, BK1, BK2))
    whole = steps(bookies, shape)
    bookies.runs_a_reply = 1
    assert steps(bookies, shape) == whole


@pytest.mark.parametrize("away", [BK0, BK1, BK2])
def test_fragments_read_whole_have_the_bytes_that_the_record_says_whoever_is_away(away: BookieRef) -> None:
    """One large entry, which is told of by both of its bookies, or by one."""
    shape = Shape(3, 2, 2)
    sizes = [SMALL] * 60 + [LARGE] + [SMALL] * 65
    bookies = Told(sizes, shape, (BK0, BK1, BK2))
    bookies.away = {away}
    found = steps(bookies, shape)
    assert (before(found, 30), before(found, 126)) == (sum(sizes[:30]), sum(sizes))


def test_a_bookie_that_is_away_leaves_the_steps_near_the_truth() -> None:
    shape = Shape(3, 2, 2)
    bookies = Told(SKEWED, shape, (BK0, BK1, BK2))
    bookies.away = {BK1}
    found = steps(bookies, shape)
    true = [0, *accumulate(SKEWED)]
    assert found[-1] == (len(SKEWED), sum(SKEWED))
    assert max(abs(before(found, i) - true[i]) for i in range(len(SKEWED) + 1)) <= 3 * LARGE


runs = st.tuples(st.integers(0, 100), st.integers(0, 50), st.integers(1, 10**12)).map(
    lambda run: Holding(run[0], run[0] + run[1], 1, run[2])
)


@given(st.lists(runs, max_size=20))
def test_steps_rise_and_end_with_all_bytes_of_all_runs(held: list[Holding]) -> None:
    found = steps_of(held, 0, 200)
    assert all(low.bytes_before <= high.bytes_before + 1 for low, high in pairwise(found))
    assert found[-1].entry_id == 200
    assert found[-1].bytes_before == pytest.approx(sum(run.payload_bytes for run in held), rel=1e-6, abs=1)
