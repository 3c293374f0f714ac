"""The simulated metadata store: one record, changed by compare-and-swap, read, watched, deleted.

Requests and answers are lost or late, and a change whose answer was lost is settled as metadata/settled_writes.py does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from metadata.records.ledger_record import LedgerRecord, LedgerState
from metadata.records.notes.record_reconstruction import NotedBy, reconcile
from tests.simulation.cores.checks import Checker
from tests.simulation.cores.plans.plan import METADATA
from tests.simulation.cores.probes import Probe
from tests.simulation.engine.world import World

from .network import Network

T = TypeVar("T")

CAS_TRIES = 4
CAS_SECONDS = 8.0

WATCH_NOTICE_SECONDS = 12.0
"""How long a watcher takes to see that its stream is broken, and to ask again."""


@dataclass(frozen=True, slots=True)
class Committed:
    """This record stands, at this version."""

    record: LedgerRecord
    version: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody else changed or deleted it: this stands."""

    found: Committed | None


class Unsettled:
    """The store stayed silent."""


Outcome = Committed | Lost | Unsettled


@dataclass(frozen=True, slots=True)
class Read:
    """What a read found."""

    found: Committed | None


class SimulatedMetadata:
    """One compare-and-swap register, and who watches it."""

    def __init__(self, world: World, network: Network, checker: Checker, record: LedgerRecord) -> None:
        self._world = world
        self._network = network
        self._checker = checker
        self._nonces = 0
        self._away_until = 0.0
        self._applies_while_away = False
        self._watchers: dict[str, Callable[[Committed | None], None]] = {}
        self._gaps: dict[str, float] = {}
        self.stands: Committed | None = Committed(record, 1)
        self.versions = 1
        self.is_held = self.went_back = False
        self._history = [record]

    # --- what goes wrong ----------------------------------------------------------------------------

    def go_away(self, seconds: float, *, applies: bool) -> None:
        """Serves nothing for a while; or does what is asked, and its answers are lost."""
        self._world.reached(Probe.STORE_AWAY)
        self._away_until = self._world.now + seconds
        self._applies_while_away = applies

    def touch(self) -> None:
        """Somebody changes the record harmlessly."""
        if self.stands is not None and not self.stands.record.is_closed:
            self._stand(replace(self.stands.record, custom_metadata={"touched": b"%d" % self.versions}))

    def go_back(self, changes: int) -> None:
        """An older copy is put in place, as with `--bump-revision`; whoever compares notices, and holds back."""
        if self.stands is None:
            return
        self._world.reached(Probe.STORE_WENT_BACK)
        self._history = self._history[: max(1, len(self._history) - changes)]
        older = self._history[-1]
        self._world.note("metadata went back to %s", _Described(older))
        self.stands = Committed(older, self.stands.version + 1)
        self.is_held = self.went_back = True
        self._checker.went_back(older)

    def accept(self, noted: Iterable[NotedBy]) -> None:
        """What is older is brought up to what bookies have noted; then the hold is lifted."""
        noted = list(noted)
        if not any(one.note.ledger.is_closed for one in noted):
            self._checker.nobody_knows_an_end()
        if self.stands is not None and (better := reconcile(self.stands.record, noted)) is not None:
            self._world.reached(Probe.BROUGHT_UP)
            self._stand(better, self._checker.brought_up)
        self.is_held = False

    @property
    def found_by_upkeep(self) -> LedgerRecord | None:
        """What a bookie reads in its rounds, and may act on."""
        is_away = self._world.now < self._away_until
        return None if is_away or self.is_held or self.stands is None else self.stands.record

    def hold_back(self, client: str, seconds: float) -> None:
        """This watcher hears nothing for a while, then the last."""
        until = self._gaps[client] = self._world.now + seconds
        self._world.at(until, lambda: self._tell(client))

    def calm(self) -> None:
        self._away_until = 0.0
        self._gaps.clear()

    # --- what clients ask ---------------------------------------------------------------------------

    def read(self, client: str, then: Callable[[Read | None], None]) -> None:
        """What stands; None when no answer came."""
        self._call(client, lambda: Read(self.stands), then)

    def change(
        self,
        client: str,
        record: LedgerRecord,
        version: int,
        then: Callable[[Outcome], None],
        *,
        unless_held: bool = False,
    ) -> None:
        """One change, tried again with the same bytes until its outcome is known or patience ends."""
        self._nonces += 1
        mine = replace(record, nonce=str(self._nonces).encode())
        self._try(client, mine, version, then, CAS_TRIES, unless_held=unless_held)

    def delete(self, client: str, version: int, then: Callable[[bool | None], None]) -> None:
        """Whether it is gone, by this request; None when no answer came."""
        self._call(client, lambda: self._delete(version), then)

    def watch(self, client: str, hear: Callable[[Committed | None], None]) -> None:
        """`hear` is given what stands after each change, None where it was deleted; some changes are skipped."""
        self._watchers[client] = hear

    # ------------------------------------------------------------------------------------------------

    def _try(
        self,
        client: str,
        mine: LedgerRecord,
        version: int,
        then: Callable[[Outcome], None],
        tries: int,
        *,
        unless_held: bool,
    ) -> None:
        def answered(ok: bool | None) -> None:
            if ok:
                then(Committed(mine, version + 1))
            elif ok is False:
                self.read(client, lambda found: then(self._settled(mine, found)))
            elif tries > 1:
                self._try(client, mine, version, then, tries - 1, unless_held=unless_held)
            else:
                self._world.reached(Probe.CHANGE_UNSETTLED)
                then(Unsettled())

        self._call(client, lambda: not (unless_held and self.is_held) and self._swap(mine, version), answered)

    def _settled(self, mine: LedgerRecord, read: Read | None) -> Outcome:
        """The swap failed: because somebody was faster, or because an earlier try of ours had succeeded (M1)."""
        if read is None:
            self._world.reached(Probe.CHANGE_UNSETTLED)
            return Unsettled()
        found = read.found
        if found is not None and found.record.nonce == mine.nonce:
            self._world.reached(Probe.LOST_ANSWER_SETTLED)
            return found
        return Lost(found)

    def _swap(self, record: LedgerRecord, version: int) -> bool:
        if self.stands is None or version != self.stands.version:
            return False
        self._stand(record)
        return True

    def _stand(self, record: LedgerRecord, check: Callable[[LedgerRecord], None] | None = None) -> None:
        assert self.stands is not None
        self._world.note("metadata %s", _Described(record))
        before = self.stands.record
        self.versions += 1
        self.stands = Committed(record, self.stands.version + 1)
        if record.state is LedgerState.OPEN and record.fragments != before.fragments:
            self._world.reached(Probe.ENSEMBLE_CHANGED)
        self._history.append(record)
        (check or self._checker.changed)(record)
        for client in self._watchers:
            self._tell(client)

    def _delete(self, version: int) -> bool:
        if self.stands is None or version != self.stands.version:
            return self.stands is None
        self._world.note("metadata deleted")
        self.stands = None
        self._checker.deleted()
        for client in self._watchers:
            self._tell(client)
        return True

    def _tell(self, client: str) -> None:
        """A watcher hears what stands; where the message is lost it sees so, and asks for what it missed."""
        if self._world.now < self._gaps.get(client, 0.0) or client not in self._watchers:
            return None
        stands, hear = self.stands, self._watchers[client]
        for delay in self._network.deliveries("watch", METADATA, client):
            return self._world.after(delay, lambda: hear(stands))
        return self._world.after(WATCH_NOTICE_SECONDS, lambda: self._tell(client))

    def _call(self, client: str, serve: Callable[[], T], then: Callable[[T | None], None]) -> None:
        """A request that may arrive even after the caller has given it up, or twice."""
        decided = False

        def decide(value: T | None) -> None:
            nonlocal decided
            if not decided:
                decided = True
                then(value)

        def arrive() -> None:
            away = self._world.now < self._away_until
            if away and not self._applies_while_away:
                return
            value = serve()
            if not away:
                for back in self._network.deliveries("cas reply", METADATA, client):
                    self._world.after(back, lambda: decide(value))

        for there in self._network.deliveries("cas", client, METADATA):
            self._world.after(there, arrive)
        self._world.after(CAS_SECONDS, lambda: decide(None))


class _Described:
    """A record as a line of the trace, made only where it is printed."""

    def __init__(self, record: LedgerRecord) -> None:
        self._record = record

    def __str__(self) -> str:
        record = self._record
        fragments = " ".join(f"{f.first_entry}:{','.join(map(str, f.ensemble))}" for f in record.fragments)
        return f"{record.state} {record.last_entry} {fragments}"
