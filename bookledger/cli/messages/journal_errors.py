"""Explains journal errors in plain words, with Hadoop's class in parentheses."""

from __future__ import annotations

from qjm_compat import errors
from qjm_compat.error_translation import METADATA_FAILED
from qjm_compat.errors import HalfFormatted, JournalError, JournalUnavailable, QuorumFailed, QuorumTimeout

MEANINGS: dict[type[JournalError], str] = {
    errors.JournalNotFormatted: "there is no such journal: `bookledger journal list` lists all journals, "
    "`bookledger journal format` creates one",
    errors.JournalNotEmpty: "nothing was done; --force would discard the existing edits",
    errors.StaleEpoch: "a later writer has taken over, and this one must stop",
    errors.JournalOutOfSync: "an acceptor missed some edits, and takes part again from the next segment on",
    errors.LoggerTooFarBehind: "an acceptor is too slow, and takes part again from the next segment on",
    errors.BadRequest: "the request is invalid",
    errors.BadJournalState: "the journal's state does not allow this",
    errors.RuleViolated: "continuing would lose or change acknowledged edits, so nothing was changed; "
    "`bookledger journal fsck` checks all copies",
    errors.NewerTxid: "the journal does not have edits that new yet",
    errors.EditsNotCached: "these edits are no longer cached; `bookledger journal export` reads their segments",
    errors.SegmentUnreadable: "no copy of a segment can be read to its end; `bookledger journal fsck` says why",
    errors.EditsMissing: "the journal does not have all of these edits",
    errors.SegmentUnavailable: "no copy of a segment can be read now, because bookies or metadata stores do not answer",
    errors.QuorumFailed: "too few acceptors succeeded",
    errors.QuorumTimeout: "too few acceptors answered in time; the request may have succeeded nevertheless",
    errors.HalfFormatted: "some acceptors were formatted, and some were not",
    errors.StreamClosed: "the stream is closed for edits",
    errors.JournalUnavailable: "the ledgers or the metadata under the journal did not answer",
    errors.MetadataAway: "the metadata under the journal did not answer",
}
"""Meanings by class; a subclass without an entry has the meaning of its base class. Other errors explain themselves."""


def describe_journal_error(error: JournalError) -> str:
    """Describes the error in one line: the meaning, the message, each acceptor's error, and Hadoop's class."""
    meaning = next((MEANINGS[kind] for kind in type(error).__mro__ if kind in MEANINGS), "")
    parts = [meaning, _detail(error)]
    return f"{': '.join(part for part in parts if part)} ({hadoop_name(error)})"


def describe_outage(error: JournalError, *, is_alone: bool) -> str:
    """Returns a clause that explains a wait, with only the peers that did not answer. `is_alone`: there is only one
    acceptor, which need not be named."""
    if isinstance(error, JournalUnavailable):
        return _cause(error)
    if not isinstance(error, QuorumFailed) or isinstance(error, QuorumTimeout) or not error.errors:
        return describe_journal_error(error)
    names: dict[str, list[str]] = {}
    for name, one in error.errors.items():
        names.setdefault(_cause(one), []).append(name)
    return "; ".join(cause if is_alone else f"{', '.join(who)}: {cause}" for cause, who in names.items())


def _cause(error: Exception) -> str:
    if isinstance(error, JournalUnavailable):
        return "; ".join(str(error).removeprefix(f"{METADATA_FAILED}: ").splitlines())
    return _said_by_one(error)


def hadoop_name(error: JournalError) -> str:
    """Returns Hadoop's class without its package, as in Hadoop's logs."""
    return error.java_class.rpartition(".")[2]


def _detail(error: JournalError) -> str:
    said = "; ".join(str(error).splitlines())
    if not isinstance(error, QuorumFailed) or isinstance(error, HalfFormatted) or not error.errors:
        return said
    what = said.partition(": ")[0]
    return "; ".join([what, *(f"{name}: {_said_by_one(one)}" for name, one in error.errors.items())])


def _said_by_one(error: Exception) -> str:
    if isinstance(error, JournalError):
        return describe_journal_error(error)
    return "; ".join(str(error).splitlines()) or type(error).__name__
