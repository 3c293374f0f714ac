"""The store goes back under living processes: nothing acknowledged is mixed or collected (W8, B3)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import replace

import pytest

from bookie.index.local_ledger_state import LocalLedgerState
from bookie.index.notes_table import NotesTable
from bookie.serving.history.metadata_watch import ALWAYS, MetadataWatch, StoreComparison
from bookie.serving.lookups.verifiers import Verifiers
from bookie.upkeep.collecting.collector import Collector
from bookie.upkeep.healing.restore_check import RestoreCheck
from bookie.wire import LacReply
from ledgers.integrity.digest import Digester
from ledgers.protocol.fencing import Fencing
from ledgers.protocol.ledger_recovery import Recovery
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.notes.fragment_note import Headline
from metadata.version import Version
from tests.simulation.engine.planted import Plant, Real, around, bug, instead_of
from tests.simulation.engine.runs import Failed

from .metadata_rollback import CopyOfJustNow, RollbackCluster
from .plan import Plan
from .replaced_ensembles import (
    EnsembleThatComesBack,
    EnsembleThatIsAwayAtTheAcceptance,
    EnsembleThatWasAway,
    ReplacedEnsemble,
)
from .run import play

SEEDS = int(os.environ.get("ROLLBACK_SEEDS", "8"))
SEARCHED_MAX = 40
Patch = pytest.MonkeyPatch
Kind = type[RollbackCluster]
REPLACED: tuple[Kind, ...] = (
    ReplacedEnsemble,
    EnsembleThatComesBack,
    EnsembleThatWasAway,
    EnsembleThatIsAwayAtTheAcceptance,
)


def broken_by(seed: int, kind: Kind) -> str:
    """Which promise a run of this kind breaks; "" where it breaks none."""
    try:
        play(Plan(seed=seed, shape=kind.shape, hosts=kind.hosts_count), tracing=False, kind=kind)
    except Failed as failed:
        return str(failed)
    return ""


def broken(kind: Kind, seeds: int) -> list[tuple[int, str]]:
    return [(seed, why) for seed in range(seeds) if (why := broken_by(seed, kind))]


def test_W8_nothing_acknowledged_is_mixed_or_collected() -> None:
    assert broken(RollbackCluster, SEEDS) == []


@pytest.mark.parametrize("kind", REPLACED)
def test_W8_no_recovery_loses_what_was_acknowledged_by_bookies_that_the_older_copy_does_not_name(
    kind: Kind,
) -> None:
    assert broken(kind, max(1, SEEDS // 2)) == []


def test_W8_who_is_given_an_id_again_shows_bookies_that_the_store_went_back() -> None:
    assert broken(CopyOfJustNow, SEEDS) == []


# --- rules that are broken on purpose -------------------------------------------------------------------


@instead_of(Headline, "is_ahead_of")
def notes_are_not_heeded(note: Headline, record: LedgerRecord) -> bool:
    """The second net: neither does a recovery heed them, nor is a record made again by them."""
    return False


@instead_of(NotesTable, "add")
def nothing_is_noted(*_: object) -> None:
    """As where they are lost."""


@bug(known=2)
def bookies_know_no_identities(patch: Patch) -> None:
    patch.setattr(LocalLedgerState, "is_another", lambda *_: False)
    patch.setattr(LocalLedgerState, "identity_mismatch", lambda *_: "")


@around(Collector, "_compare", known=1)
async def a_collection_goes_by_ids_alone(compare: Real, self: Collector, *about: Iterable[int]) -> object:
    with pytest.MonkeyPatch.context() as alone:
        alone.setattr(self._bookie, "holds_another", lambda _: False)
        return await compare(self, *about)


@instead_of(StoreComparison, "check_rollback", known=3)
async def nobody_looks(_: StoreComparison) -> bool:
    return False


@instead_of(MetadataWatch, "vouched_since", known=2)
async def a_fence_is_answered_without_comparing(_: MetadataWatch) -> int:
    return ALWAYS


@instead_of(Fencing, "vouches", known=2)
def an_answer_is_not_compared_with_the_records_version(_: Fencing, reply: LacReply) -> bool:
    return reply.vouched_since > 0


@instead_of(MetadataWatch, "_all_have_compared", known=2)
async def who_was_away_need_not_hear_the_others(_: MetadataWatch) -> bool:
    return True


@around(Fencing, "__init__", known=2)
def a_mark_makes_a_record_newer(begin: Real, self: Fencing, record: LedgerRecord, digester: Digester) -> None:
    begin(self, replace(record, written_at=sys.maxsize), digester)


@bug(known=2)
def whoever_answers_is_believed_and_a_close_goes_through_a_hold(patch: Patch) -> None:
    """Either alone is safe: each stops what the other lets through."""
    patch.setattr(Fencing, "vouches", lambda *_: True)
    change = LedgerStore.change

    async def broken(
        self: LedgerStore, record: LedgerRecord, version: Version, *, unless_held: bool = False
    ) -> VersionedRecord:
        return await change(self, record, version)

    patch.setattr(LedgerStore, "change", broken)


@bug(known=2)
def no_record_names_who_holds_more(patch: Patch) -> None:
    async def broken(_: RestoreCheck, found: VersionedRecord | None) -> None:
        return

    nothing_is_noted(patch)
    patch.setattr(RestoreCheck, "_be_named", broken)


@bug(known=2)
def a_recovery_does_not_heed_who_holds_more(patch: Patch) -> None:
    begin = Recovery.__init__

    def broken(self: Recovery, record: LedgerRecord, digester: Digester) -> None:
        begin(self, replace(record, also_at=()), digester)

    nothing_is_noted(patch)
    patch.setattr(Recovery, "__init__", broken)


@instead_of(Verifiers, "look", known=0)
async def a_bookie_does_not_look_again(*_: object) -> None:
    """Where it has another ledger of the id than it is asked for."""


@bug(known=0)
def a_bookie_remembers_nothing_of_the_metadata(patch: Patch) -> None:
    patch.setattr(Verifiers, "_is_older", lambda *_: "")


@instead_of(MetadataWatch, "_bring_up", known=0)
async def who_comes_back_brings_nothing_up(self: MetadataWatch) -> None:
    await self._comparison.came_back()


@pytest.mark.parametrize(
    ("plant", "promise", "kind"),
    [
        (bookies_know_no_identities, "mixed", RollbackCluster),
        (a_collection_goes_by_ids_alone, "collected", RollbackCluster),
        (nobody_looks, "noticed", RollbackCluster),
        (a_fence_is_answered_without_comparing, "cut short", ReplacedEnsemble),
        (whoever_answers_is_believed_and_a_close_goes_through_a_hold, "cut short", ReplacedEnsemble),
        (an_answer_is_not_compared_with_the_records_version, "cut short", EnsembleThatWasAway),
        (who_was_away_need_not_hear_the_others, "cut short", EnsembleThatWasAway),
        (a_mark_makes_a_record_newer, "cut short", EnsembleThatWasAway),
        (no_record_names_who_holds_more, "cut short", ReplacedEnsemble),
        (a_recovery_does_not_heed_who_holds_more, "cut short", ReplacedEnsemble),
        (a_bookie_does_not_look_again, "noticed", CopyOfJustNow),
        (a_bookie_remembers_nothing_of_the_metadata, "noticed", CopyOfJustNow),
        (who_comes_back_brings_nothing_up, "cut short", EnsembleThatIsAwayAtTheAcceptance),
    ],
    ids=lambda one: one.name if isinstance(one, Plant) else None,
)
def test_such_a_bug_is_found_by_the_seed_that_is_known(
    plant: Plant, promise: str, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the draws have changed it is searched for."""
    plant(monkeypatch)
    if promise == "cut short" and plant is not who_comes_back_brings_nothing_up:
        notes_are_not_heeded(monkeypatch)
    assert plant.known is not None
    assert any(promise in broken_by(seed, kind) for seed in (plant.known, *range(SEARCHED_MAX)))


def test_W8_where_nobody_compares_a_bookie_that_knows_a_later_state_ends_a_recovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_fence_is_answered_without_comparing(monkeypatch)
    found = broken(ReplacedEnsemble, max(1, SEEDS // 2))
    assert [(seed, why) for seed, why in found if "cut short" in why] == []


def test_W8_where_nothing_is_noted_no_recovery_closes_what_others_hold_more_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing_is_noted(monkeypatch)
    assert broken(ReplacedEnsemble, max(1, SEEDS // 2)) == []
