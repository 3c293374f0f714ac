"""The proposer as a pure state machine: becomes the writer of a journal, and recovers and manages segments."""

from __future__ import annotations

from collections.abc import Mapping

from .. import requests
from ..config import JournalConfig
from ..errors import BadJournalState, BadRequest, RuleViolated
from ..requests import NamespaceInfo, PrepareReply, R, Request, SegmentState
from .proposer_effects import Acceptors, Need, Program, SetEpoch


def best_source(replies: Mapping[int, PrepareReply]) -> int:
    """Returns the number of the acceptor to recover from: the first one if several are equally good.

    Raises RuleViolated if two finalized copies differ, or if the best copy lacks committed edits.
    """
    best, *others = sorted(replies)
    for number in others:
        if compare(replies[number], replies[best]) > 0:
            best = number
    _check_holds_commits(replies, best)
    return best


def compare(one: PrepareReply, other: PrepareReply) -> int:
    """Compares two sources: positive if `one` is the better source, negative if `other` is, zero if they are equally
    good."""
    a, b = one.segment, other.segment
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if a.start_txid != b.start_txid:
        raise BadRequest(f"segments {a} and {b} do not begin at the same txid")
    if a.in_progress != b.in_progress:
        return b.in_progress - a.in_progress
    if not a.in_progress:
        if a.end_txid != b.end_txid:
            raise RuleViolated(f"finalized segs with different lengths: {a} and {b}")
        return 0
    mine, theirs = (max_seen_epoch(one), a.end_txid), (max_seen_epoch(other), b.end_txid)
    return (mine > theirs) - (mine < theirs)


def max_seen_epoch(reply: PrepareReply) -> int:
    """Returns the latest epoch that an acceptor has recorded for the segment, either its writer's or a recovery's."""
    return max(reply.accepted_in_epoch or 0, reply.last_writer_epoch)


def _check_holds_commits(replies: Mapping[int, PrepareReply], best: int) -> None:
    segment = replies[best].segment
    if segment is None:
        return
    for reply in replies.values():
        committed = reply.last_committed_txid
        if committed is not None and committed > segment.end_txid:
            raise RuleViolated(
                f"the best copy of segment {segment.start_txid} ends at txid {segment.end_txid}, "
                f"but txid {committed} was committed"
            )


class Proposer:
    """One writer's view of a journal. It can become the writer only once; another attempt needs a new proposer."""

    def __init__(self, acceptors: tuple[str, ...], config: JournalConfig) -> None:
        self.acceptors = Acceptors(acceptors)
        self.epoch: int | None = None
        self.is_active_writer = False
        self._config = config
        self._next_txid = 1
        self._unfinalized: int | None = None

    # --- becoming the writer -------------------------------------------------------------------------

    def create_new_unique_epoch(self, namespace: NamespaceInfo) -> Program[dict[int, int]]:
        """Acquires a unique epoch above all earlier ones. Returns the acceptors' latest segments.

        Raises QuorumFailed, including when another proposer was faster; in that case, a new proposer may try again.
        """
        if self.epoch is not None:
            raise BadJournalState(f"this writer already has epoch {self.epoch}")
        states = yield from self._majority(
            "getJournalState", requests.GetJournalState(), self._config.takeover_seconds_max
        )
        epoch = 1 + max(state.last_promised_epoch for state in states.values())
        replies = yield from self._majority(
            f"newEpoch({epoch})", requests.NewEpoch(namespace, epoch), self._config.takeover_seconds_max
        )
        self.epoch = epoch
        yield SetEpoch(epoch)
        return {n: r.last_segment_txid for n, r in replies.items() if r.last_segment_txid is not None}

    def recover_unfinalized_segments(self, namespace: NamespaceInfo) -> Program[SegmentState | None]:
        """Becomes the writer, and makes a majority finalize the latest segment with the same end.

        Returns the recovered segment, or None if there was none. A majority has already finalized the earlier segments,
        because a segment begins only after the previous one is finalized by a majority.
        """
        latest = yield from self.create_new_unique_epoch(namespace)
        recovered = None
        if latest:
            recovered = yield from self.recover_unclosed_segment(max(latest.values()))
        if recovered is not None:
            self._next_txid = recovered.end_txid + 1
        self.is_active_writer = True
        return recovered

    def recover_unclosed_segment(self, start_txid: int) -> Program[SegmentState | None]:
        """Runs one round of Paxos to agree on the end of a segment, and finalizes the segment."""
        replies = yield from self._majority(
            f"prepareRecovery({start_txid})",
            requests.PrepareRecovery(segment_txid=start_txid),
            self._config.takeover_seconds_max,
        )
        source = best_source(replies)
        chosen = replies[source].segment
        if chosen is None:
            return None  # no acceptor has any edits of the segment, so it never existed
        yield from self._majority(
            f"acceptRecovery({start_txid}-{chosen.end_txid})",
            requests.AcceptRecovery(state=chosen, source=self.acceptors.names[source]),
            self._config.takeover_seconds_max,
        )
        yield from self.finalize_log_segment(chosen.start_txid, chosen.end_txid)
        return chosen

    # --- segments -------------------------------------------------------------------------------------

    def start_log_segment(self, txid: int, layout_version: int | None) -> Program[None]:
        """Begins a segment at a majority, after all existing ones (rule J5).

        Raises BadJournalState if this proposer is not the writer yet, if its last segment is not finalized, or if
        another segment may already contain this txid.
        """
        if not self.is_active_writer:
            raise BadJournalState(
                "must recover segments before starting a new one; if this manager has written before, use a new manager"
            )
        if self._unfinalized is not None:
            raise BadJournalState(f"segment {self._unfinalized} is not finalized yet")
        if txid < self._next_txid:
            raise BadJournalState(
                f"txid {txid} is taken: the next segment begins at {self._next_txid} or later"
            )
        yield from self._majority(
            f"startLogSegment({txid})",
            requests.StartLogSegment(txid=txid, layout_version=layout_version),
            self._config.start_segment_seconds_max,
        )
        self._unfinalized = txid

    def nothing_was_written(self, txid: int) -> None:
        """Allows a segment to be begun again if it was abandoned before any edit was sent."""
        if self._unfinalized == txid:
            self._unfinalized = None

    def finalize_log_segment(self, start_txid: int, end_txid: int) -> Program[None]:
        """Ends a segment permanently at a majority."""
        yield from self._majority(
            f"finalizeLogSegment({start_txid}-{end_txid})",
            requests.FinalizeLogSegment(start_txid=start_txid, end_txid=end_txid),
            self._config.takeover_seconds_max,
        )
        self._next_txid = max(self._next_txid, end_txid + 1)
        if self._unfinalized == start_txid:
            self._unfinalized = None

    # --- the complete journal: every acceptor must succeed ---------------------------------------------

    def format(self, namespace: NamespaceInfo, *, force: bool) -> Program[None]:
        """Formats the acceptors. Raises QuorumFailed, which lists the acceptors that were formatted and those that were
        not."""
        self.is_active_writer = self.is_active_writer and not force
        seconds_max = self._config.operations_seconds_max
        request = requests.Format(namespace, force)
        yield from self.acceptors.ask("format", request, Need.ALL, seconds_max, every_answer=True)
        self.is_active_writer = False

    def is_formatted(self) -> Program[bool]:
        """Returns whether any acceptor has the journal. Every acceptor must answer."""
        return bool((yield from self.formatted()))

    def formatted(self) -> Program[tuple[str, ...]]:
        """Returns the acceptors that have the journal. Every acceptor must answer."""
        answers = yield from self._all("isFormatted", requests.IsFormatted())
        return tuple(self.acceptors.names[n] for n in sorted(answers) if answers[n])

    def do_pre_upgrade(self) -> Program[None]:
        self.is_active_writer = False
        yield from self._all("doPreUpgrade", requests.DoPreUpgrade())

    def do_upgrade(self, namespace: NamespaceInfo) -> Program[None]:
        yield from self._all("doUpgrade", requests.DoUpgrade(namespace.storage))

    def do_finalize(self) -> Program[None]:
        yield from self._all("doFinalize", requests.DoFinalize())

    def can_roll_back(self, target_layout_version: int) -> Program[bool]:
        """Returns whether a rollback is possible. Raises RuleViolated if the acceptors disagree."""
        return (yield from self._agreed("canRollBack", requests.CanRollBack(target_layout_version)))

    def do_rollback(self) -> Program[None]:
        self.is_active_writer = False
        yield from self._all("doRollback", requests.DoRollback())

    def discard_segments(self, start_txid: int) -> Program[None]:
        self.is_active_writer = False
        yield from self._all(f"discardSegments({start_txid})", requests.DiscardSegments(start_txid))

    def get_journal_c_time(self) -> Program[int]:
        """Returns the journal's creation time. Raises RuleViolated if the acceptors disagree."""
        return (yield from self._agreed("getJournalCTime", requests.GetJournalCTime()))

    # ----------------------------------------------------------------------------------------------------

    def _majority(self, what: str, request: Request[R], seconds_max: float) -> Program[dict[int, R]]:
        return dict((yield from self.acceptors.ask(what, request, Need.MAJORITY, seconds_max)))

    def _all(self, what: str, request: Request[R]) -> Program[dict[int, R]]:
        seconds = self._config.operations_seconds_max
        return dict((yield from self.acceptors.ask(what, request, Need.ALL, seconds)))

    def _agreed(self, what: str, request: Request[R]) -> Program[R]:
        answers = yield from self._all(what, request)
        different = {self.acceptors.names[n]: answer for n, answer in answers.items()}
        if len(set(different.values())) != 1:
            raise RuleViolated(f"{what}: the acceptors do not agree: {different}")
        return answers[0]
