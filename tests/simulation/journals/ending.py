"""How a run ends: a last writer recovers and writes, everything promised is read, and nothing is left over."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qjm_compat.acceptor.programs.state_transitions import kept_ledgers
from qjm_compat.errors import JournalError
from qjm_compat.manager.input_stream import EditLogInputStream
from qjm_compat.manager.proposer_effects import CallAcceptors, Need
from qjm_compat.manager.segments_seen import segments_seen
from qjm_compat.requests import GetEditLogManifest, PurgeLogs
from tests.simulation.engine.world import Violation

from .client import Driver, Script, Sleep
from .disk import Disk
from .edits import edits_in
from .plan import Writer
from .probes import JournalProbe
from .synchronous import gathered
from .users import NAMESPACE, WriterLife, no_gaps

if TYPE_CHECKING:
    from .cluster import Cluster
    from .operators import Operator

ATTEMPTS_MAX = 4
REST_SECONDS = 150.0
"""What was sent before, however late, has been answered then."""

LAST_SEGMENTS = ((1,),)

RESTS_MAX = 100
"""Looks at who is not done yet; after so many they never will be."""


class Ending:
    """Formats the journal at the beginning, and sees to its end."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.site = cluster.site
        self.checks = cluster.site.checks
        self.is_done = False

    def begin(self) -> None:
        """The journal is formatted before anything happens; the end comes after all is well."""
        for disk in self.cluster.disks:
            disk.format(NAMESPACE.storage)
        self.driver = Driver(self.site, self.site.host("last"), self._script())
        self.driver.start(self.cluster.plan.heals_at + 1.0)

    def _script(self) -> Script:
        yield from self._until(lambda operator: operator.is_at_rest)
        yield from self._written()
        yield from self._until(lambda operator: operator.is_done)
        admin = self.cluster.plan.admin
        if admin:
            yield from self._up_to_date()
            self.cluster.stop_users()
            yield Sleep(REST_SECONDS)
            self.checks.is_resting = True
            self.cluster.sync_meanwhile()
            yield from getattr(self, f"_{admin}")()
            yield from self._written()
        yield from self._up_to_date()
        self.is_done = True

    def _until(self, holds: Callable[[Operator], bool]) -> Generator[Any, Any, None]:
        """Of all who replace acceptors, or bring them up to date."""
        for _ in range(RESTS_MAX):
            if all(map(holds, self.cluster.operators)):
                return
            yield Sleep(5.0)
        raise Violation("liveness", "an acceptor that was replaced never became whole")

    def _up_to_date(self) -> Generator[Any, Any, None]:
        """Where acceptors are brought up to date, each has everything in the end."""
        if not (self.cluster.plan.syncs or self.cluster.plan.replaced):
            return
        yield Sleep(REST_SECONDS)
        operator = self.cluster.sync_to_the_end()
        yield from self._until(lambda one: one is not operator or one.is_done)
        self.checks.everywhere(self.cluster.disks)

    def check(self) -> None:
        """What must hold when nothing happens any more. Raises Violation."""
        if not self.is_done:
            raise Violation("liveness", "the last writer never came to an end")
        self._nothing_left_over()

    # --- the last writer --------------------------------------------------------------------------------

    def _written(self) -> Generator[Any, Any, None]:
        """Somebody recovers and writes within so many attempts, and reads everything."""
        for _ in range(ATTEMPTS_MAX):
            life = self._life()
            try:
                yield from life.live()
                if self.checks.purged_below or self.checks.is_resting:
                    yield from self._purged(life)
                yield from self._read_everything(life)
                return
            except JournalError as error:
                self.site.note("the last writer failed: %s", error)
                self.checks.failed(error)
            finally:
                life.close()
            yield Sleep(20.0)
        raise Violation("liveness", f"no writer came through in {ATTEMPTS_MAX} attempts")

    def _life(self) -> WriterLife:
        client = self.cluster.connect(self.driver.host)
        self.driver.client = client
        return WriterLife(self.site, Writer(0.0, LAST_SEGMENTS), client, self.cluster.next_tag())

    def _purged(self, life: WriterLife) -> Generator[Any, Any, None]:
        """A purge sweeps; every acceptor must be able to."""
        keep = max(self.checks.purged_below, 1)
        answers = yield CallAcceptors("purge", PurgeLogs(min_txid_to_keep=keep), Need.ALL, 80.0)
        life.proposer.acceptors.check("purge", answers, Need.ALL, 80.0)

    def _read_everything(self, life: WriterLife) -> Generator[Any, Any, None]:
        manifests = yield from life.proposer.acceptors.ask(
            "manifest", GetEditLogManifest(0, False), Need.ALL, 80.0
        )
        seen = segments_seen(manifests, life.quorum, only_durable=True)
        no_gaps(seen, self.checks.purged_below)
        readers = {n: self.cluster.reader_of(n) for n in range(len(self.cluster.disks))}
        found: dict[int, bytes] = {}
        for segment in seen:
            for batch in gathered(EditLogInputStream(segment, readers, 0).batches()):
                found.update(edits_in(batch.first_txid, bytes(batch.records)))
        self.checks.all_there(found)

    # --- what is done while nobody writes ---------------------------------------------------------------

    def _discard(self) -> Generator[Any, Any, None]:
        life = self._life()
        starts = [start for start in self.checks.known.finalized if start >= self.checks.purged_below]
        begin = sorted(starts)[-2:][0] if starts else self.checks.purged_below
        yield from life.proposer.discard_segments(begin)
        self.checks.discarded(begin)
        self.site.reached(JournalProbe.DISCARDED)
        life.close()

    def _format(self) -> Generator[Any, Any, None]:
        life = self._life()
        yield from life.proposer.format(NAMESPACE, force=True)
        self.checks.formatted()
        self.site.reached(JournalProbe.FORMATTED_AGAIN)
        life.close()

    def _upgrade(self) -> Generator[Any, Any, None]:
        life = self._life()
        yield from life.proposer.do_pre_upgrade()
        yield from life.proposer.do_upgrade(replace(NAMESPACE, c_time=7, layout_version=-64))
        self.site.reached(JournalProbe.UPGRADED)
        life.close()

    def _rollback(self) -> Generator[Any, Any, None]:
        before = self.checks.snapshot()
        yield from self._upgrade()
        self.checks.purged(max(self.checks.known.finalized))
        yield from self._written()
        life = self._life()
        if not (yield from life.proposer.can_roll_back(NAMESPACE.layout_version)):
            raise Violation("contract", "an upgrade cannot be rolled back")
        yield from life.proposer.do_rollback()
        self.checks.rolled_back(*before)
        self.site.reached(JournalProbe.ROLLED_BACK)
        life.close()

    # --- nothing is left over ---------------------------------------------------------------------------

    def _nothing_left_over(self) -> None:
        """Every ledger is referred to, or was lost by a call that never knew its outcome (and is counted)."""
        for disk in self.cluster.disks:
            self._note_stale_copies(disk)
            for ledger_id in sorted(self._unreferred(disk)):
                made_by = disk.ledgers[ledger_id].made_by
                if not getattr(made_by, "is_in_doubt", False):
                    raise Violation("leak", f"ledger {ledger_id} of {disk.name} is left over for ever")
                self.site.reached(JournalProbe.LEFT_OVER)

    def _note_stale_copies(self, disk: Disk) -> None:
        assert disk.state is not None
        for segment in disk.state.state.segments:
            if not segment.finalized and segment.start_txid in self.checks.known.finalized:
                self.site.reached(JournalProbe.STALE_COPY_LEFT)

    def _unreferred(self, disk: Disk) -> set[int]:
        assert disk.state is not None
        state = disk.state.state
        known = set(kept_ledgers(state)) | set(state.replaced_ledgers)
        known |= {found.segment.ledger_id for found in disk.finalized.values()}
        return {n for n, ledger in disk.ledgers.items() if not ledger.is_dropped} - known
