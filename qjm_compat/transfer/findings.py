"""What a check of a journal found."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it must be. `where` is an acceptor and a segment, or the journal."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class CopyFound:
    """One acceptor's copy of a segment, as it was read.

    `digest` is over all frames, however they are cut into batches. `marks` has the digest up to the end of each batch,
    for a copy that may end anywhere. A copy that could not be read whole has no digest.
    """

    acceptor: str
    first_txid: int
    last_txid: int
    finalized: bool
    writer_epoch: int
    digest: bytes | None = None
    marks: dict[int, bytes] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class Findings:
    """`ops` and `bytes` were read, of all copies together. `notes` are no problems, but good to know."""

    acceptors: tuple[str, ...] = ()
    first_txid: int | None = None
    last_txid: int | None = None
    segments: int = 0
    copies: list[CopyFound] = field(default_factory=list)
    ops: int = 0
    bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    orphans: list[Orphan] = field(default_factory=list)

    def problem(self, where: str, what: object) -> None:
        self.problems.append(Problem(where, str(what)))


@dataclass(frozen=True, slots=True)
class Orphan:
    """A ledger that says it is the journal's, and that nothing refers to."""

    ledger_id: int
    metadata_uri: str
    acceptor: str
    first_txid: str
    length_bytes: int | None

    def __str__(self) -> str:
        return (
            f"ledger {self.ledger_id} was made for segment {self.first_txid} of acceptor {self.acceptor}, "
            f"and nothing refers to it"
        )
