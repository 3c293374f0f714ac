"""Findings of a journal check: problems, copies, orphaned ledgers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JournalProblem:
    """A violated invariant. `where` names an acceptor and a segment, or the whole journal."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class CopyFound:
    """One acceptor's copy of a segment, as read from its ledger.

    `digest` covers all frames, regardless of how they are divided into batches. For a copy that is not finalized, and
    may therefore end anywhere, `marks` contains the digest up to the end of each batch. A copy that could not be read
    completely has no digest.
    """

    acceptor: str
    first_txid: int
    last_txid: int
    finalized: bool
    writer_epoch: int
    layout_version: int
    digest: bytes | None = None
    marks: dict[int, bytes] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class JournalFindings:
    """The findings. `ops` and `bytes`: how many were read, over all copies in total. `notes`: useful to know, but not
    problems.

    `purged_below`: every acceptor was asked to purge the segments that end before this txid. `lost_copies`: acceptors
    and first txids of copies whose ledgers are missing; each is also reported as a problem. `orphans_seen_at`: the
    time, by this process's monotonic clock, at which all `orphans` existed and nothing referred to them.
    """

    acceptors: tuple[str, ...] = ()
    first_txid: int | None = None
    last_txid: int | None = None
    segments: int = 0
    purged_below: int = 0
    copies: list[CopyFound] = field(default_factory=list)
    lost_copies: set[tuple[str, int]] = field(default_factory=set)
    ops: int = 0
    bytes: int = 0
    problems: list[JournalProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    orphans: list[Orphan] = field(default_factory=list)
    orphans_seen_at: float = 0.0

    def problem(self, where: str, what: object) -> None:
        self.problems.append(JournalProblem(where, str(what)))

    def orphan(self, where: str, orphan: Orphan) -> None:
        self.orphans.append(orphan)
        self.problem(where, orphan)

    @property
    def problems_beside_orphans(self) -> int:
        return len(self.problems) - len(self.orphans)

    def lacks(self, first_txid: int, last_txid: int) -> int | None:
        """Returns the first of these txids that is in no finalized segment and was not purged, or None."""
        next_txid = max(first_txid, self.purged_below)
        for copy in sorted(self.copies, key=lambda copy: copy.first_txid):
            if copy.finalized and copy.digest is not None and copy.first_txid <= next_txid:
                next_txid = max(next_txid, copy.last_txid + 1)
        return next_txid if next_txid <= last_txid else None


@dataclass(frozen=True, slots=True)
class Orphan:
    """A ledger whose metadata contains the journal's id, but to which nothing refers."""

    ledger_id: int
    metadata_uri: str
    acceptor: str
    first_txid: str
    length_bytes: int | None
    why_kept: str | None = None
    """The reason not to delete the ledger, as far as it can be determined without disturbing a writer."""

    def __str__(self) -> str:
        said = (
            f"ledger {self.ledger_id} was created for segment {self.first_txid} of acceptor {self.acceptor}, "
            f"and nothing refers to it"
        )
        return said if self.why_kept is None else f"{said}: {self.why_kept}"
