"""Plans a round: finds the finalized segments that each acceptor lacks, and the acceptors that can provide them. Does
no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ..acceptor.programs.sync_programs import SegmentsHeld, are_of_two
from ..requests import RemoteEditLog

Held = Mapping[str, SegmentsHeld]
"""The segments of the acceptors that answered, keyed by acceptor name."""


@dataclass(frozen=True, slots=True)
class SyncStep:
    """One segment to sync to one acceptor. `is_open`: the segment is not sealed at that acceptor, and its writer may be
    about to end it."""

    target: str
    log: RemoteEditLog
    sources: tuple[str, ...]
    is_open: bool = False

    def __str__(self) -> str:
        return f"acceptor {self.target}, segment {span(self.log)}"


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The steps of a round. `violations`: finalized copies that contradict each other; `waits`: segments that must not
    be copied yet, and the reasons."""

    steps: tuple[SyncStep, ...] = ()
    violations: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()


@dataclass(slots=True)
class SyncGroup:
    """The finalized copies of a segment, keyed by acceptor. `is_sound`: the copies contradict neither each other nor
    other segments."""

    copies: dict[str, RemoteEditLog] = field(default_factory=dict)
    is_sound: bool = True

    @property
    def log(self) -> RemoteEditLog:
        """The segment, with its writer's epoch if any acceptor has recorded it."""
        return max(self.copies.values(), key=lambda log: log.writer_epoch)

    @property
    def end_txid(self) -> int:
        return max(log.end_txid for log in self.copies.values())


def plan(held: Held, targets: Collection[str]) -> SyncPlan:
    """Returns the steps, oldest segment first, that give each of the `targets` every finalized segment."""
    if len({one.storage for one in held.values()}) > 1:
        storages = "; ".join(f"{name}: {one.storage}" for name, one in held.items())
        return SyncPlan(violations=(f"the acceptors are of different namespaces: {storages}",))
    groups, violations = finalized_groups(held)
    steps: list[SyncStep] = []
    waits: list[str] = []
    for group in groups:
        lacking = [name for name in held if name not in group.copies]
        if not group.is_sound or not lacking:
            continue
        unvouched = [name for name in lacking if not _vouches(held[name], group.log)]
        if unvouched:
            waits.append(_why_waiting(group.log, unvouched))
            continue
        sources, start = tuple(group.copies), group.log.start_txid
        steps += [
            SyncStep(name, group.log, sources, start in held[name].unsealed)
            for name in lacking
            if name in targets
        ]
    return SyncPlan(tuple(steps), tuple(violations), tuple(waits))


def finalized_groups(held: Held) -> tuple[list[SyncGroup], list[str]]:
    """Returns, in order, every segment that at least one acceptor has finalized and none has purged; also returns the
    contradictions between their copies."""
    floor = purged_below(held)
    groups: dict[int, SyncGroup] = {}
    for name, one in held.items():
        for log in one.logs:
            if log.end_txid >= floor:
                groups.setdefault(log.start_txid, SyncGroup()).copies[name] = log
    in_order = [groups[start] for start in sorted(groups)]
    return in_order, _violations(in_order)


def purged_below(held: Held) -> int:
    """Returns the highest purge limit of the acceptors: segments that ended before this txid were purged. An acceptor
    that missed the purge may still have them."""
    return max((one.purged_below for one in held.values()), default=0)


def span(log: RemoteEditLog) -> str:
    """Formats a segment's txids for use in a sentence."""
    return f"{log.start_txid}-{log.end_txid}"


def _vouches(held: SegmentsHeld, log: RemoteEditLog) -> bool:
    """Returns whether an acceptor that lacks a segment can be sure that it did not drop the segment earlier."""
    return held.vouched_txid is None or log.end_txid <= held.vouched_txid


def _why_waiting(log: RemoteEditLog, unvouched: Collection[str]) -> str:
    names = ", ".join(unvouched)
    return (
        f"segment {span(log)} waits: edits were dropped at acceptor {names} by a discard, a rollback, an upgrade or a "
        f"format, and no writer has since reported that txid {log.end_txid} is committed"
    )


def _violations(groups: list[SyncGroup]) -> list[str]:
    """Returns one sentence per contradiction, and marks the affected groups as unsound."""
    found: list[str] = []
    widest: SyncGroup | None = None
    for group in groups:
        logs = list(group.copies.values())
        if any(log.end_txid != logs[0].end_txid for log in logs) or _of_two_writers(logs):
            group.is_sound = False
            found.append(
                f"segment {group.log.start_txid} is finalized differently: {_describe_copies(group)}"
            )
        if widest is not None and widest.end_txid >= group.log.start_txid:
            widest.is_sound = group.is_sound = False
            found.append(
                f"segment {group.log.start_txid} begins inside segment {widest.log.start_txid}: "
                f"{_describe_copies(widest)}; {_describe_copies(group)}"
            )
        if widest is None or group.end_txid > widest.end_txid:
            widest = group
    return found


def _of_two_writers(logs: list[RemoteEditLog]) -> bool:
    known = [log.writer_epoch for log in logs if log.writer_epoch]
    return any(are_of_two(epoch, known[0]) for epoch in known)


def _describe_copies(group: SyncGroup) -> str:
    return ", ".join(
        f"{name} has {span(log)} of epoch {log.writer_epoch}" for name, log in group.copies.items()
    )
