"""Plans for balance: bookies are used alike afterwards, and no copy stands worse than before."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bookie.upkeep.healing.cluster_view import ClusterView
from bookledger.cluster.balance import TOLERANCE, Balance, Plan
from metadata import placement
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.registration import Registration

DISK = 1_000_000


def ref(name: str) -> BookieRef:
    return BookieRef(name, f"i-{name}")


def view(domains: dict[str, str], disks: dict[str, int] | None = None) -> ClusterView:
    living = {
        ref(name): Registration(
            ref(name), f"{name}:1", domain, disk_bytes_total=(disks or {}).get(name, DISK), disk_bytes_free=1
        )
        for name, domain in domains.items()
    }
    return ClusterView(0, living, {name: f"i-{name}" for name in domains})


def ledger(ledger_id: int, *names: str, length_bytes: int = 1000, write_quorum: int = 0) -> LedgerRecord:
    shape = Shape(len(names), write_quorum or len(names), 1)
    return LedgerRecord(
        ledger_id,
        shape,
        (Fragment(0, tuple(map(ref, names))),),
        LedgerState.CLOSED,
        last_entry=99,
        length_bytes=length_bytes,
    )


def planned(
    records: list[LedgerRecord], seen: ClusterView, amiss: dict[int, list[int]] | None = None
) -> Plan:
    placed: dict[BookieRef, int] = {}
    for record in records:
        for fragment, size in record.copy_bytes():
            for one in fragment.ensemble:
                placed[one] = placed.get(one, 0) + size
    balance = Balance(seen, placed)
    for record in records:
        balance.consider(record, (amiss or {}).get(record.ledger_id, []))
    return balance.plan


def moved(records: list[LedgerRecord], plan: Plan) -> list[LedgerRecord]:
    """As the bookies do it."""
    by_id = {record.ledger_id: record for record in records}
    for one in plan.moves:
        for move in one.moves:
            record = by_id[one.ledger_id]
            assert record.fragment_of(move.first_entry).admits(move.new, in_place_of=move.old)
            by_id[one.ledger_id] = record.moved(move.first_entry, move.old, move.new)
    return list(by_id.values())


def test_a_new_bookie_gets_its_share() -> None:
    records = [ledger(n, "a", "b", "c") for n in range(100)]
    seen = view(dict.fromkeys("abcd", ""))
    plan = planned(records, seen)
    assert plan.before == {ref("a"): 100_000, ref("b"): 100_000, ref("c"): 100_000, ref("d"): 0}
    assert all(abs(used - 75_000) <= 75_000 * TOLERANCE + 1000 for used in plan.after.values()), plan.after
    assert plan.bytes == plan.copies * 1000 and 60 < plan.copies <= 75
    again = planned(moved(records, plan), seen)
    assert again.copies == 0 and again.before == plan.after


def test_a_disk_of_twice_the_size_gets_twice_as_much() -> None:
    records = [ledger(n, "a") for n in range(300)]
    plan = planned(records, view(dict.fromkeys("ab", ""), {"a": DISK, "b": 2 * DISK}))
    assert abs(plan.after[ref("b")] - 200_000) <= 10_000


def test_copies_of_one_fragment_stay_in_different_fault_domains() -> None:
    """The rack that has room holds a copy of each already."""
    records = [ledger(n, "a", "b") for n in range(100)]
    plan = planned(records, view({"a": "/r1", "b": "/r2", "c": "/r1"}))
    for record in moved(records, plan):
        assert ref("b") in record.fragments[0].ensemble
    assert abs(plan.after[ref("c")] - 50_000) <= 5000, "of those in its own rack it takes over"


def test_what_has_to_be_healed_or_is_still_written_is_left_alone() -> None:
    records = [ledger(n, "a") for n in range(10)]
    records += [replace(ledger(50, "a"), state=LedgerState.OPEN, last_entry=None, length_bytes=None)]
    plan = planned(records, view(dict.fromkeys("ab", "")), {n: [0] for n in range(10)})
    assert plan.copies == 0


def test_without_bookies_or_disks_nothing_is_planned() -> None:
    assert planned([ledger(1, "a")], ClusterView(0)).copies == 0
    assert planned([ledger(1, "a")], view({"a": "", "b": ""}, {"a": 0, "b": 0})).copies == 0


@given(
    st.lists(st.sampled_from(["", "/r1", "/r2"]), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(0, 5000)), max_size=30),
    st.integers(1, 4),
)
def test_no_plan_makes_the_fullest_fuller_or_a_place_worse(
    domains: list[str], drawn: list[tuple[int, int, int]], write_quorum: int
) -> None:
    names = [f"b{n}" for n in range(len(domains))]
    seen = view(dict(zip(names, domains, strict=True)))
    records = [
        ledger(
            n, *[names[(first + k) % len(names)] for k in range(min(size, len(names)))], length_bytes=length
        )
        for n, (first, size, length) in enumerate(drawn)
    ]
    plan = planned(records, seen)
    assert max(plan.after.values()) <= max(plan.before.values())
    assert sum(plan.after.values()) == sum(plan.before.values())
    for before, after in zip(records, moved(records, plan), strict=True):
        assert worst(after, seen) <= worst(before, seen)


def worst(record: LedgerRecord, seen: ClusterView) -> int:
    """Pairs of copies of the same entries that share a fault domain."""
    copies = [seen.living[one] for one in record.fragments[0].ensemble]
    quorum = record.shape.write_quorum
    return sum(
        placement.rank(one, [copies[m] for m in placement.neighbours(n, len(copies), quorum)])[0]
        for n, one in enumerate(copies)
    )
