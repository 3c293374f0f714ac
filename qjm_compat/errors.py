"""Errors of journals, for operators and NameNodes to act on.

    JournalError
    ├── JournalNotFormatted      format the journal first, or specify the right one
    ├── JournalNotEmpty          it contains edits: format it only with force
    ├── StaleEpoch               another writer has taken over: this one must stop
    ├── JournalOutOfSync         this acceptor missed a call; it takes part again from the next segment on
    │   └── LoggerTooFarBehind   … because its queue is full
    ├── BadRequest               a call that no correct writer makes
    ├── BadJournalState          the journal's state does not allow this call
    ├── RuleViolated             the call would lose or change promised edits: nothing was changed
    ├── NewerTxid                the reader is ahead of this acceptor
    ├── EditsNotCached           read the segments instead
    ├── SegmentUnreadable        no copy of a segment could be read to its end
    │   ├── SegmentUnavailable   … because bookies or metadata did not answer: read it again later
    │   └── EditsMissing         … because no acceptor that answers has these edits
    ├── QuorumFailed             too few acceptors succeeded; contains the error of each one that failed
    │   ├── QuorumTimeout        … because they did not answer in time
    │   └── HalfFormatted        … when formatting: repeating the call formats the rest
    ├── StreamClosed             the output stream accepts no further edits
    └── JournalUnavailable       the ledgers or the metadata that the journal uses did not answer
        └── MetadataAway         … the metadata did not answer: it may be back soon

`java_class` is the equivalent Hadoop class; messages contain the phrases that operators search logs for. The edits of a
failed flush may or may not be in the journal: the next recovery decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from metadata.picklable_errors import AlreadyExists, NotFound, PicklableError, TakenOver, Unavailable

_SERVER = "org.apache.hadoop.hdfs.qjournal.server."
_PROTOCOL = "org.apache.hadoop.hdfs.qjournal.protocol."
_CLIENT = "org.apache.hadoop.hdfs.qjournal.client."


class JournalError(PicklableError):
    """Base class of all errors of journals."""

    java_class = "java.io.IOException"


class JournalNotFormatted(NotFound, JournalError):
    """The acceptor has no such journal."""

    java_class = _PROTOCOL + "JournalNotFormattedException"

    def __init__(self, journal_id: str, where: str = "") -> None:
        super().__init__(f"Journal {where or journal_id} not formatted ; journal id: {journal_id}")


class JournalNotEmpty(AlreadyExists, JournalError):
    """Formatting would discard an existing journal."""

    java_class = "org.apache.hadoop.hdfs.server.common.InconsistentFSStateException"


class StaleEpoch(TakenOver, JournalError):
    """The journal was promised to a later writer. A writer that gets this error must stop."""


class JournalOutOfSync(JournalError):
    """The acceptor cannot follow this writer, which continues with the other acceptors until the next segment."""

    java_class = _PROTOCOL + "JournalOutOfSyncException"


class LoggerTooFarBehind(JournalOutOfSync):
    """The queue for this acceptor is full."""

    java_class = _CLIENT + "LoggerTooFarBehindException"


class BadRequest(JournalError):
    """An invalid argument."""

    java_class = "java.lang.IllegalArgumentException"


class BadJournalState(JournalError):
    """The journal's state does not allow this call."""

    java_class = "java.lang.IllegalStateException"


class RuleViolated(JournalError):
    """The call would break a promise. Nothing was changed; investigate why the call was made."""

    java_class = "java.lang.AssertionError"


class NewerTxid(JournalError):
    """The acceptor does not have these edits yet. Ask the other acceptors, or retry later."""

    java_class = _SERVER + "NewerTxnIdException"


class EditsNotCached(JournalError):
    """These edits are no longer cached; read them from the segments."""

    java_class = _SERVER + "JournaledEditsCache$CacheMissException"

    def __init__(self, since_txid: int, missing_txns: int) -> None:
        super().__init__(f"edits from txid {since_txid} on are not cached ({missing_txns} too old)")
        self.missing_txns = missing_txns


class SegmentUnreadable(JournalError):
    """No copy of the segment can be read; the message contains the error from each source."""


class SegmentUnavailable(Unavailable, SegmentUnreadable):
    """No copy of the segment can be read now. At least one copy may become readable later: its bookies or its metadata
    did not answer."""


class EditsMissing(SegmentUnreadable):
    """Edits that were requested, or that lie between existing ones, are missing at every acceptor that answers. The
    message states which edits are missing, and the remedy."""

    @classmethod
    def before(cls, next_txid: int, txid: int, *, is_oldest: bool) -> Self:
        """Returns the error for edits that are missing from `txid` to `next_txid` - 1. `is_oldest`: `next_txid` is the
        oldest existing edit."""
        why = "the oldest edit" if is_oldest else "the next one"
        purged = (
            "; earlier ones were purged, or only acceptors that do not answer have them" if is_oldest else ""
        )
        return cls(f"txids {txid} to {next_txid - 1} are not there: {why} is {next_txid}{purged}")


class QuorumFailed(JournalError):
    """Too few acceptors carried out the request. `done` lists the acceptors known to have carried it out; others may
    have done so, too."""

    java_class = _CLIENT + "QuorumException"

    def __init__(
        self, what: str, needed: int, asked: int, errors: Mapping[str, Exception], done: Sequence[str] = ()
    ) -> None:
        said = "\n".join(f"{name}: {error}" for name, error in errors.items())
        super().__init__(
            f"{what}: Got too many exceptions to achieve quorum size {needed}/{asked}. "
            f"{len(errors)} exceptions thrown:\n{said}"
        )
        self.errors = dict(errors)
        self.done = tuple(done)


class QuorumTimeout(Unavailable, QuorumFailed):
    """Too few acceptors answered in time."""

    java_class = "java.io.IOException"

    def __init__(
        self,
        what: str,
        seconds: float,
        silent: str,
        errors: Mapping[str, Exception],
        done: Sequence[str] = (),
    ) -> None:
        said = "".join(f"\n{name}: {error}" for name, error in errors.items())
        JournalError.__init__(
            self,
            f"{what}: Timed out waiting {seconds * 1000:.0f} ms for a quorum of nodes to respond. "
            f"No answer from {silent}.{said}",
        )
        self.errors = dict(errors)
        self.done = tuple(done)


class HalfFormatted(QuorumFailed):
    """Some acceptors were formatted, and others were not. Repeating the call formats only the rest, unless
    `with_force`.

    `with_force`: the call must be repeated with force, which formats all acceptors again, because too few were
    formatted for the others to join them, or because old contents must still be discarded.
    """

    def __init__(
        self,
        journal_id: str,
        done: Sequence[str],
        errors: Mapping[str, Exception],
        *,
        with_force: bool = False,
    ) -> None:
        failed = "; ".join(f"{name}: {error}" for name, error in errors.items())
        again = (
            "the same call with --force formats all of them again"
            if with_force
            else "the same call formats these"
        )
        JournalError.__init__(
            self,
            f"journal {journal_id} is now formatted at acceptor {', '.join(done)}, but nothing was done at the "
            f"others: {again}. {failed}",
        )
        self.errors = dict(errors)
        self.done = tuple(done)


class StreamClosed(JournalError):
    """The stream was closed, or aborted after a failed flush."""


class JournalUnavailable(Unavailable, JournalError):
    """The ledgers or the metadata that the journal uses failed. The call may have taken effect; the next recovery
    decides."""


class MetadataAway(JournalUnavailable):
    """The metadata that the journal uses did not answer. Acceptors wait for it for a while before they report this
    error."""
