"""What a survey says is not as it should be, of bookies that live."""

from __future__ import annotations

import time
from dataclasses import fields, replace

import pytest

from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.healing.cluster_view import ClusterView
from bookie.upkeep.healing.ledger_counts import BookieHolding, Condition, FragmentCopy, LedgerCounts
from bookie.upkeep.repair_client import NoPeers
from bookie.upkeep_config import UpkeepConfig
from bookledger.admin.api.census import Counted
from bookledger.cluster import health
from bookledger.cluster import survey as surveys
from bookledger.cluster.survey import Survey, bookies_seen
from bookledger.cluster.survey import survey as survey_of
from metadata import open_store
from metadata.healing import operator_requests
from metadata.healing.lease_lock import LeaseLock, Unreachable
from metadata.healing.operator_requests import Order, OrderKind
from metadata.records.ledger_record import BookieRef, Fragment, LedgerState, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.store import MetadataStore, StoreHealth
from tests.support.made_clusters import a_cluster_in_memory, a_record

BK1, BK2 = BookieRef("b1", "i1"), BookieRef("b2", "i2")
FORMATTED = {"b1": "i1", "b2": "i2"}


def survey(
    writable: tuple[bool, bool], formatted: dict[str, str], orders: dict[str, OrderKind] | None = None
) -> Survey:
    living = {one: Registration(one, "h:1", writable=w) for one, w in zip((BK1, BK2), writable, strict=True)}
    view = ClusterView(1, living=living, formatted=formatted, orders=orders or {})
    return Survey(view, "c", 0.0, StoreHealth("memory", "", 0), LeaseLock(BK1, 0), bookies_seen(view, {}))


def why_not_whole(seen: Survey) -> list[str]:
    return health.why_not_whole(health.of_survey(seen))


BK3 = BookieRef("b3", "i3")


@pytest.mark.parametrize(
    ("orders", "waits", "then"),
    [
        ({}, 1000, "; their data is copied elsewhere after 1 s of absence"),
        ({}, 5, "; their data is to be copied elsewhere"),
        ({"b3": OrderKind.MAINTENANCE}, 1000, ""),
    ],
)
def test_who_is_absent_is_told_with_what_becomes_of_what_it_holds(
    orders: dict[str, OrderKind], waits: int, then: str
) -> None:
    seen = survey((True, True), {**FORMATTED, "b3": "i3"}, orders)
    seen.view = replace(seen.view, wait_ms=waits, absent_ms={"b3": 5})
    assert why_not_whole(seen) == [f"not registered: b3{then}"]


def test_a_reason_names_so_many_bookies_and_counts_the_rest() -> None:
    seen = survey((True, True), FORMATTED | {f"x{n}": "i" for n in range(health.NAMES_MAX + 2)})
    seen.view = replace(
        seen.view, orders={f"x{n}": OrderKind.MAINTENANCE for n in range(health.NAMES_MAX + 2)}
    )
    (why,) = why_not_whole(seen)
    assert why.endswith(" and 2 more") and why.count("x") == health.NAMES_MAX


def test_one_bookie_that_takes_nothing_new_leaves_the_cluster_whole() -> None:
    assert health.is_whole(survey((True, False), FORMATTED))


def test_a_bookie_that_is_given_up_is_not_waited_for_and_counts_until_nothing_refers_to_it() -> None:
    seen = survey((True, True), {**FORMATTED, "b3": "i3"}, {"b3": OrderKind.GIVEN_UP})
    assert why_not_whole(seen) == []
    seen.holdings[BK3] = BookieHolding(1, 1, 1)
    assert why_not_whole(seen) == ["given up, but ledgers still refer to it: b3"]


@pytest.mark.parametrize(
    ("formatted", "orders", "lost"),
    [
        ({"b3": "i3"}, {}, []),
        ({"b3": "i3"}, {"b3": OrderKind.GIVEN_UP}, ["b3"]),
        ({"b3": "of another disk"}, {}, ["b3"]),
        ({}, {}, []),  # its cookie is missing: its directory may be there
    ],
)
def test_a_lost_bookie_is_told_from_one_that_is_away(
    formatted: dict[str, str], orders: dict[str, OrderKind], lost: list[str]
) -> None:
    seen = survey((True, True), {**FORMATTED, **formatted}, orders)
    fragment = Fragment(0, (BK1, BK3))
    seen.bad_copies_by_ledger[7] = [
        FragmentCopy(fragment, 4, 1, Condition.LOST),
        FragmentCopy(fragment, 4, 0, Condition.LACKING),
    ]
    assert seen.lost_of(7) == lost
    assert seen.lost_of(8) == []


@pytest.mark.parametrize(
    ("living", "write_quorum", "left"),
    [(4, 3, {3: 1}), (3, 3, {2: 1}), (3, 2, {1: 1}), (2, 2, {0: 1}), (1, 3, {0: 1})],
)
async def test_a_fragment_has_as_many_copies_left_as_the_entry_with_the_fewest(
    living: int, write_quorum: int, left: dict[int, int]
) -> None:
    """Of ledger 1 on b2, b3 and b4, of which the first bookies live; one without entries has nothing to lose."""
    store = await open_store(await a_cluster_in_memory(living=living))
    for record in (a_record(1), a_record(2, last_entry=-1, length_bytes=0)):
        await LedgerStore(store).create(replace(record, shape=Shape(3, write_quorum, 2)))
    seen = await survey_of(store, wait_ms=0)
    assert seen is not None and seen.copies_left == left
    counted = Counted(seen, 0.0, 0.0)
    assert counted.copies_left(seen.view) == {str(copies): count for copies, count in left.items()}
    assert counted.copies_left(ClusterView(1)) is None, "others live now than were counted with"


async def test_an_audit_counts_what_a_survey_counts() -> None:
    store = await open_store(await a_cluster_in_memory(living=3))
    opened = replace(a_record(3), state=LedgerState.OPEN, last_entry=None, length_bytes=None, closed_ms=0)
    in_recovery = replace(opened, ledger_id=4, state=LedgerState.IN_RECOVERY, identity=bytes(15) + b"4")
    for record in (a_record(1), a_record(2).with_lacking(0, 0, 0), opened, in_recovery):
        await LedgerStore(store).create(record)
    seen = await survey_of(store, wait_ms=0)
    assert seen is not None
    auditor = Auditor(store, BK1, UpkeepConfig(lost_bookie_seconds=0), time.time, NoPeers())
    audited = await auditor.audit(seen.view)
    for field in fields(LedgerCounts):
        assert getattr(audited, field.name) == getattr(seen, field.name), field.name
    assert (seen.to_heal, seen.left_behind, seen.unclosed) == (2, 1, [4])


async def counted_by_the_auditor(store: MetadataStore) -> Auditor:
    auditor = Auditor(store, BK1, UpkeepConfig(lost_bookie_seconds=0), time.time, NoPeers())
    assert await auditor._is_elected()
    await auditor._publish_office(await auditor.look_once())
    return auditor


async def test_what_the_auditor_has_counted_is_told_of_very_many_ledgers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = await open_store(await a_cluster_in_memory(living=3))
    for record in (a_record(1), a_record(2).with_lacking(0, 0, 0), a_record(5)):
        await LedgerStore(store).create(record)
    auditor = await counted_by_the_auditor(store)
    listed = await survey_of(store, wait_ms=0, may_be_counted=True)
    assert listed is not None and not listed.counted_seconds_ago and 2 in listed.bad_copies_by_ledger
    monkeypatch.setattr(surveys, "COUNTED_LEDGERS_MIN", 3)
    counted = await survey_of(store, wait_ms=0, may_be_counted=True)
    assert counted is not None and counted.counted_seconds_ago and not counted.bad_copies_by_ledger
    for field in fields(LedgerCounts):
        assert getattr(counted, field.name) == getattr(listed, field.name), field.name
    assert health.why_not_whole(health.of_survey(counted)) == health.why_not_whole(health.of_survey(listed))
    again = await survey_of(store, wait_ms=0)
    assert again is not None and not again.counted_seconds_ago
    await auditor._held.give_up()


@pytest.mark.parametrize("spoil", ["others live", "nonsense", "another version"])
async def test_counts_that_say_nothing_of_the_bookies_that_there_are_now_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    monkeypatch.setattr(surveys, "COUNTED_LEDGERS_MIN", 1)
    store = await open_store(await a_cluster_in_memory(living=3))
    await LedgerStore(store).create(a_record(1))
    auditor = await counted_by_the_auditor(store)
    if spoil == "others live":
        await operator_requests.give(store, Order("b2", OrderKind.DRAIN, 1))
    else:
        told = "{" if spoil == "nonsense" else auditor._office.counts.replace("fragments", "pieces")
        auditor._office = replace(auditor._office, counts=told)
        await auditor._held.publish()
    seen = await survey_of(store, wait_ms=0, may_be_counted=True)
    assert seen is not None and not seen.counted_seconds_ago and seen.ledgers.total() == 1
    await auditor._held.give_up()


@pytest.mark.parametrize("order", [None, OrderKind.DRAIN])
@pytest.mark.parametrize("is_open", [True, False])
async def test_a_copy_that_may_lack_something_is_none_that_is_left(
    order: OrderKind | None, *, is_open: bool
) -> None:
    """Also while its fragment is written to, as by a writer that began without the bookie (rule W9), and where it is to
    leave its bookie anyway."""
    store = await open_store(await a_cluster_in_memory(living=4))
    closed = a_record(1).with_lacking(0, 0, 0)
    opened = replace(closed, state=LedgerState.OPEN, last_entry=None, length_bytes=None, closed_ms=0)
    record = opened if is_open else closed
    await LedgerStore(store).create(record)
    if order is not None:
        await operator_requests.give(store, Order(record.fragments[0].ensemble[0].bookie_id, order, 1))
    seen = await survey_of(store, wait_ms=0)
    assert seen is not None and seen.copies_left == {2: 1}


@pytest.mark.parametrize(
    ("called", "why", "told"),
    [
        ("h:1", "no answer within 10 s", ["h:1: no answer within 10 s"]),
        ("h:1", "cannot connect to h:1: Connection refused", ["cannot connect to h:1: Connection refused"]),
        (
            "",
            "cannot connect to 192.0.2.1:3181: timed out",
            ["h:1: cannot connect to 192.0.2.1:3181: timed out"],
        ),
        ("192.0.2.1:3181", "cannot connect to 192.0.2.1:3181: timed out", []),
    ],
)
def test_who_was_called_in_vain_is_out_of_reach_at_that_address_only_and_it_is_told_once(
    called: str, why: str, told: list[str]
) -> None:
    """It may have been restarted under another one."""
    seen = survey((True, True), FORMATTED)
    seen.auditor = LeaseLock(BK1, 0, unreachable={"b2": Unreachable(called, why)})
    assert why_not_whole(seen) == [
        f"alive, but unreachable for the auditor: b2 ({one}); check --advertise" for one in told
    ]


def test_a_bookie_whose_handshake_failed_is_told_with_its_certificate_and_not_with_its_address() -> None:
    seen = survey((True, True), FORMATTED)
    why = "cannot connect to h:1: TLS: certificate has expired"
    seen.auditor = LeaseLock(BK1, 0, unreachable={"b2": Unreachable("h:1", why)})
    assert why_not_whole(seen) == [f"alive, but unreachable for the auditor: b2 ({why}); check certificates"]
