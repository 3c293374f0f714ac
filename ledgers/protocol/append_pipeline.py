"""The append pipeline, a pure state machine that determines when entries are confirmed.

Each position of the ensemble is served over a *lane*, a numbered attempt to send to one bookie. Entries are sent on a
lane in id order and acknowledged in that order, so a single number represents a position's acknowledgements.
Confirmation is arithmetic on E numbers, however many entries there are.

Rules kept here:
- W2  confirmed strictly in entry order; an ack counts only over the current lane of a position (F9).
- W3  an ensemble change first withdraws all acks of the replaced positions, then resends all pending
      entries to them, and only then may anything be confirmed (F8).
- W4  an ensemble change is one compare-and-swap, only on an OPEN record; the new fragment starts at
      LAC+1; bookies are used only once the change is known to be stored (F6); the LAC does not move
      from the moment the change is requested until its outcome is known (F7).
- W5  FENCED and UNAUTHORIZED end the writer; any other error means a failed bookie. Simultaneous failures lead to a
      single change.
- W6  a bookie that makes progress, but whose backlog exceeds its bound, is replaced if another bookie is available;
      otherwise the writer waits for it. The record states which copies may lack which entries (`shortfall`).
- W9  bookies that were absent when the ledger was created start out as failed, and lack every entry.
- C1  closing waits for copies that are in flight; then it is one compare-and-swap OPEN → CLOSED at the LAC, and
      never overrides a recovery; if the ledger is found closed at the same entry, closing has succeeded.

If no replacement is found (or `delay_ensemble_change` does not permit one yet), writing continues without the failed
position as long as every write set keeps an ack quorum of live bookies. A failed bookie that answers again returns to
its own position without a change of metadata, and is sent all pending entries again. Without a quorum nothing is
confirmed, and the search continues until the shell ends the writer.

With `deferred_sync` an entry is *accepted* when it is in the logs of an ack quorum. As always, it is confirmed when it
is on their disks, which `force` requests. In recovery the same machine writes entries back (R4); changes stay in memory
until the ledger is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bookie.wire import Columns
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState

from ..errors import LedgerError, NoSuchLedger, Unconfirmed
from .ledger_effects import (
    Accept,
    AppendEffect,
    ChangeRecord,
    CloseLane,
    Confirm,
    FindReplacements,
    Finish,
    Force,
    RetryLater,
    Send,
)
from .pending import PendingEntries
from .phase import Phase, changed_by_another, is_as_left, is_closed_at, taken_over, without_quorum
from .positions import Positions
from .shortfall import Shortfall
from .striping import Striping


class AppendPipeline:
    """One writer's view of one ledger from `first_entry` on. Every method returns effects to perform.

    `record` is the last record known to be stored; in recovery it includes the changes kept in memory.
    """

    def __init__(
        self,
        record: LedgerRecord,
        *,
        first_entry: int = 0,
        length_bytes: int = 0,
        recovery: bool = False,
        deferred_sync: bool = False,
        delay_ensemble_change: bool = False,
    ) -> None:
        assert recovery or record.state is LedgerState.OPEN
        self.record = record
        self.phase = Phase.WRITING
        self.last_add_confirmed = first_entry - 1
        self.last_add_accepted = first_entry - 1
        self._recovery = recovery
        self._deferred_sync = deferred_sync
        self._delay_ensemble_change = delay_ensemble_change
        self._forced_through = first_entry - 1
        self._striping = Striping(record.shape)
        self._pending = PendingEntries(first_entry, length_bytes)
        absent = frozenset[int]() if recovery else record.absent_positions
        self._shortfall = Shortfall(self._striping, absent)
        self._positions = Positions(record.fragments[-1].ensemble, self._striping, first_entry - 1, absent)
        self._rejected: dict[str, str] = {}  # why bookies were unusable in the last search
        self._asked: frozenset[int] = frozenset()  # positions whose replacements are being sought
        self._in_vain: frozenset[int] = frozenset()  # positions without a replacement in the last search
        self._waiting_to_retry = False
        self._proposed: dict[int, BookieRef] = {}
        self._close_asked = False

    # --- state for the shell -----------------------------------------------------------------

    @property
    def last_add_pushed(self) -> int:
        return self._pending.last_pushed

    @property
    def pending_bytes(self) -> int:
        """Payload bytes pushed but not yet confirmed."""
        return self._pending.bytes

    @property
    def confirmed_length(self) -> int:
        """Payload bytes of entries 0..last_add_confirmed."""
        return self._pending.confirmed_length()

    @property
    def has_ended(self) -> bool:
        return self.phase is Phase.ENDED

    @property
    def failures(self) -> dict[str, str]:
        """Failures by bookie, for bookies of the ensemble that have acknowledged nothing since they failed."""
        return self._positions.failures()

    @property
    def is_behind(self) -> bool:
        """Whether a bookie is so far behind that appends should wait (rule W6)."""
        return self._positions.are_behind

    @property
    def is_without_quorum(self) -> bool:
        """Whether so many bookies have failed that some entries cannot be confirmed now."""
        return not self.has_ended and self._positions.would_lose_quorum(self._positions.failed())

    # --- events -------------------------------------------------------------------------------

    def start(self) -> list[AppendEffect]:
        """Opens a lane to each bookie of the ensemble; bookies that were absent at creation are tried again after a
        pause."""
        living = [position for position in self._positions if not position.failure]
        return [*map(self._positions.open_lane, living), *self._retry_later()]

    def append(self, columns: Columns) -> list[AppendEffect]:
        """Takes in the next entries, consecutive from last_add_pushed+1."""
        assert not self.has_ended and not self._close_asked
        self._pending.push(columns)
        if not self._striping.is_striped:
            return [Send(lane, columns) for lane in self._positions.lanes()]
        return [effect for n in range(len(self._positions)) for effect in self._send(n, [columns])]

    def acked(self, lane: int, through: int) -> list[AppendEffect]:
        """Handles the report that everything sent on the lane up to and including entry `through` is on the bookie's
        disk."""
        return self._answered(lane, acked=through, written=through)

    def written(self, lane: int, through: int) -> list[AppendEffect]:
        """Handles the report that everything sent on the lane up to and including entry `through` is in the bookie's
        log, but not yet on its disk."""
        return self._answered(lane, acked=-1, written=through)

    def force(self) -> list[AppendEffect]:
        """Requests a sync to disk of everything pushed so far; the request is complete when the LAC reaches the last
        pushed entry."""
        if self.has_ended or not self._deferred_sync or self._forced_through >= self.last_add_pushed:
            return []
        self._forced_through = self.last_add_pushed
        return self._force(range(len(self._positions)))

    def lane_failed(self, lane: int, why: str) -> list[AppendEffect]:
        """Handles the failure of the lane's bookie: it is unreachable, too slow, out of space, a different incarnation,
        …"""
        position = self._positions.on(lane)
        if position is None:
            return []
        position.fails(why)
        if position.on_trial:
            # The bookie answers probes but has failed again, perhaps because its disk is full: avoid a tight loop.
            return [CloseLane(lane), *self._retry_later(), *self._close_if_ready()]
        return [CloseLane(lane), *self._look_for_replacements(), *self._close_if_ready()]

    def lane_behind(self, lane: int, why: str) -> list[AppendEffect]:
        """Handles the report that the lane's bookie makes progress but has fallen behind: replaces the bookie if
        possible. An empty `why` means that it has caught up."""
        if (position := self._positions.on(lane)) is not None:
            position.behind = why
        return self._look_for_replacements() if why else []

    def refused(self, lane: int, error: LedgerError) -> list[AppendEffect]:
        """Handles a bookie's answer that this writer may no longer write (rule W5)."""
        return [] if self._positions.on(lane) is None else self._end(error)

    def replacements(
        self, chosen: Mapping[int, BookieRef], rejected: Mapping[str, str]
    ) -> list[AppendEffect]:
        """Handles the answer to FindReplacements: the chosen bookies by position, and why each of the other bookies is
        unusable."""
        asked, self._asked = self._asked, frozenset()
        if self.phase is not Phase.WRITING:  # the writer ended or began to close in the meantime
            return []
        # A bookie that returns to its own position is already recorded there, so the metadata does not change.
        wanted = asked & self._positions.wanting().keys()  # a bookie that was behind may have caught up
        back = [
            n for n in self._positions.failed() if n in asked and chosen.get(n) == self._positions[n].bookie
        ]
        effects = self._restart(back)
        for n in back:
            self._positions[n].on_trial = True
        new = {n: chosen[n] for n in wanted if n in chosen and chosen[n] != self._positions[n].bookie}
        self._rejected = dict(rejected)
        if self._recovery and self._positions.would_lose_quorum(asked - new.keys()):
            return effects + self._end_without_quorum()  # the caller restarts the recovery
        if new:
            self._in_vain = asked - new.keys()
            return effects + self._propose(new)
        return effects + self._retry_later() + self._look_for_replacements(beyond=asked) + self._advance()

    def retry_replacements(self) -> list[AppendEffect]:
        """Looks for replacements again, when the pause requested by RetryLater is over."""
        self._waiting_to_retry = False
        return self._look_for_replacements()

    def give_up(self) -> list[AppendEffect]:
        """Ends the writer if it has no quorum of live bookies. Called when the shell has waited long enough."""
        return self._end_without_quorum() if self.is_without_quorum else []

    def changed(self, record: LedgerRecord) -> list[AppendEffect]:
        """Handles the success of the compare-and-swap that stored this record."""
        if self.has_ended:
            return []
        self.record = record
        return self._end(None) if self.phase is Phase.CLOSING else self._use_proposed()

    def conflicted(self, found: LedgerRecord | None) -> list[AppendEffect]:
        """Handles the failure of the compare-and-swap; `found` is the stored record, or None if the ledger was
        deleted."""
        if self.has_ended:
            return []
        if found is None:
            return self._end(NoSuchLedger(self.record.ledger_id))
        is_closing = self.phase is Phase.CLOSING
        return self._conflict_while_closing(found) if is_closing else self._conflict_while_changing(found)

    def change_failed(self, error: LedgerError) -> list[AppendEffect]:
        """Ends the writer, because the outcome of the compare-and-swap remains unknown; confirms no further entries."""
        return self._end(error)

    def close(self) -> list[AppendEffect]:
        """Stops accepting entries; closes the ledger at the LAC once no change is in flight (rule C1)."""
        if self.has_ended or self._close_asked:
            return []
        self._close_asked = True
        # With deferred sync, a copy may exist only in its bookie's log, even if other bookies have synced their copies.
        return self._close_if_ready() or [Force(n) for n in self._positions.lanes() if self._deferred_sync]

    def fail(self, error: LedgerError) -> list[AppendEffect]:
        """Ends the writer with an error reported by the shell."""
        return self._end(error)

    # --- lanes --------------------------------------------------------------------------------

    def _send(self, n: int, batches: Iterable[Columns]) -> list[AppendEffect]:
        """Sends the entries that belong at position n."""
        lane = self._positions[n].lane
        if lane is None:
            return []
        effects: list[AppendEffect] = []
        for columns in batches:
            if self._striping.is_striped:
                columns = columns.where(lambda entry_id: self._striping.holds(n, entry_id))
            if len(columns):
                effects.append(Send(lane, columns))
        return effects

    def _restart(self, numbers: Iterable[int]) -> list[AppendEffect]:
        """Opens new lanes for these positions: withdraws all their acks, then resends all pending entries (F8)."""
        restarted = list(numbers)
        effects: list[AppendEffect] = []
        for n in restarted:
            position = self._positions[n]
            if position.lane is not None:
                effects.append(CloseLane(position.lane))
            self._shortfall.withdrawn(n, position.acked_through, self.last_add_confirmed)
            position.withdraw(self.last_add_confirmed)
            effects.append(self._positions.open_lane(position))
        for n in restarted:
            effects += self._send(n, self._pending.unconfirmed())
        return effects + self._force(restarted)

    def _force(self, numbers: Iterable[int]) -> list[AppendEffect]:
        if self._forced_through <= self.last_add_confirmed:
            return []
        lanes = (self._positions[n].lane for n in numbers)
        return [Force(lane) for lane in lanes if lane is not None]

    # --- confirming -----------------------------------------------------------------------------

    def _answered(self, lane: int, *, acked: int, written: int) -> list[AppendEffect]:
        assert written <= self._pending.last_pushed
        position = self._positions.on(lane)
        if position is None or not position.answered(acked=acked, written=written):
            return []
        effects = self._advance()
        return effects + self._close_if_ready() if self._close_asked else effects

    def _advance(self) -> list[AppendEffect]:
        if self.phase is not Phase.WRITING:  # the LAC does not move during a change (F7)
            return []
        pushed = self._pending.last_pushed
        if self.last_add_confirmed == pushed:  # the ack was for another copy of confirmed entries
            return []
        effects = self._accept() if self._deferred_sync else []
        through = self._positions.confirmed_through(pushed)
        if through <= self.last_add_confirmed:
            return effects
        self.last_add_confirmed = through
        self._pending.confirm(through)
        return [*effects, Confirm(through)]

    def _accept(self) -> list[AppendEffect]:
        through = self._positions.accepted_through(self.last_add_pushed)
        if through <= self.last_add_accepted:
            return []
        self.last_add_accepted = through
        return [Accept(through)]

    # --- replacing bookies ------------------------------------------------------------------------

    def _look_for_replacements(self, beyond: frozenset[int] = frozenset()) -> list[AppendEffect]:
        """Requests replacements if a position outside `beyond` needs one. The positions in `beyond` are those for which
        no replacement was found just now."""
        wanting = self._positions.wanting()
        if self.phase is not Phase.WRITING or self._asked or self._close_asked or not wanting.keys() - beyond:
            return []
        self._asked = frozenset(wanting)
        in_place = self._delay_ensemble_change and not self._positions.would_lose_quorum(wanting)
        return [FindReplacements(self._positions.ensemble, wanting, in_place)]

    def _retry_later(self) -> list[AppendEffect]:
        if self._waiting_to_retry or not self._positions.wanting():
            return []
        self._waiting_to_retry = True
        return [RetryLater()]

    def _propose(self, new: Mapping[int, BookieRef]) -> list[AppendEffect]:
        self._proposed = dict(new)
        ensemble = tuple(new.get(n, position.bookie) for n, position in enumerate(self._positions))
        fragment = Fragment(self.last_add_confirmed + 1, ensemble, self.confirmed_length)
        record = self._shortfall.update_record(self.record, self._positions.acked(), self.last_add_confirmed)
        record = record.changed_ensemble(fragment)
        if self._recovery:
            self.record = record
            return self._use_proposed()
        self.phase = Phase.CHANGING
        return [ChangeRecord(record)]

    def _use_proposed(self) -> list[AppendEffect]:
        """Starts using the stored new ensemble: withdraws acks, resends entries, and only then confirms (F8)."""
        self._shortfall.record_stored()
        for n, bookie in self._proposed.items():
            self._positions[n].serve_by(bookie)
        self.phase = Phase.WRITING
        restarted, self._proposed = list(self._proposed), {}
        effects = self._restart(restarted)
        effects += self._retry_later() + self._look_for_replacements(beyond=self._in_vain) + self._advance()
        return effects + self._close_if_ready()

    def _conflict_while_changing(self, found: LedgerRecord) -> list[AppendEffect]:
        if found.state is not LedgerState.OPEN:
            return self._end(taken_over(found))
        ours = tuple(self._proposed.get(n, p.bookie) for n, p in enumerate(self._positions))
        last = found.fragments[-1]
        if last.ensemble == ours and last.first_entry == self.last_add_confirmed + 1:
            self.record = found  # our change was stored, and then another change
            return self._use_proposed()
        if not is_as_left(found, self.record):
            return self._end(changed_by_another(found))
        self.record = found  # an earlier fragment was repaired: retry our change on the new record
        return self._propose(self._proposed)

    # --- ending -----------------------------------------------------------------------------------

    def _close_if_ready(self) -> list[AppendEffect]:
        may_close = self._close_asked and self.phase is Phase.WRITING
        if not may_close or self._positions.are_awaited(self.last_add_confirmed):
            return []
        self.phase = Phase.CLOSING
        return [ChangeRecord(self.closed_record())]

    def closed_record(self) -> LedgerRecord:
        """Returns the ledger's record, closed at the LAC. It states which entries the copies may lack."""
        closed = self.record.closed(self.last_add_confirmed, self.confirmed_length)
        return self._shortfall.update_record(closed, self._positions.acked(), self.last_add_confirmed)

    def _conflict_while_closing(self, found: LedgerRecord) -> list[AppendEffect]:
        if is_closed_at(self.last_add_confirmed, found):
            self.record = found
            return self._end(None)
        if found.state is not LedgerState.OPEN:
            return self._end(taken_over(found))
        if not is_as_left(found, self.record):
            return self._end(changed_by_another(found))
        self.record, self.phase = found, Phase.WRITING
        return self._close_if_ready()

    def _end(self, error: LedgerError | None) -> list[AppendEffect]:
        if self.has_ended:
            return []
        self.phase = Phase.ENDED
        if isinstance(error, Unconfirmed) and self.last_add_pushed > self.last_add_confirmed:
            error.first_unconfirmed = self.last_add_confirmed + 1
        return [*map(CloseLane, self._positions.lanes()), Finish(error)]

    def _end_without_quorum(self) -> list[AppendEffect]:
        """Ends the writer with an error that says why each bookie is unusable. For a failed bookie, this is its
        response to the last attempt."""
        return self._end(without_quorum(self.record, self.failures, self._rejected))
