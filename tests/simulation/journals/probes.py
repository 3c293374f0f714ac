"""Rare paths of journals that random schedules must take, by name; a campaign that missed one tested less."""

from __future__ import annotations

from enum import Enum


class SyncProbe(Enum):
    """Of acceptors that are brought up to date, or replaced; only plans with that take them."""

    COPIED = "a segment was copied to an acceptor that lacked it"
    FINALIZED = "an acceptor had all of a segment, and finalized it"
    THERE = "a copy came second"
    PURGED = "a segment was purged while it was copied"
    NOT_VOUCHED = "a segment was not copied, for it may have been dropped"
    STALE_REPLACED = "a finalized copy replaced what an acceptor had of the segment"
    SYNC_CRASHED = "a process died while it brought an acceptor up to date"
    JOINED = "an acceptor that lost everything joined again"
    JOINED_BEHIND = "it joined while a segment was in progress"
    MAY_NOT_JOIN = "it had to wait until the others were up to date"
    CANNOT_TELL = "one that joined could not tell a recovery what was written"


class JournalProbe(Enum):
    """Each is taken by some of any few thousand seeds."""

    WRITER_FENCED = "a batch of an old writer met a fence"
    WRITER_REFUSED = "an old writer was refused by its epoch"
    BATCH_SAVED = "a batch under way when its ledger was ended is in it"
    BATCH_LOST = "a batch under way when its ledger was ended is not in it"
    BATCH_IN_DOUBT = "a batch is in its ledger, and its writer was told that it failed"
    EMPTY_SEGMENT = "a segment without edits vanished"
    RESTARTED_SEGMENT = "a segment was begun where another with one transaction was"
    COPIED = "a recovery copied a segment"
    COPIED_OVER = "a recovery replaced edits of another writer"
    SHORTENED = "a recovery left out edits that some acceptor had"
    ACCEPTED_AGAIN = "a recovery found what one before it had accepted"
    OUT_OF_SYNC = "an acceptor missed a batch and got no more of them"
    TOO_FAR_BEHIND = "an acceptor's queue was full"
    CALL_AGAIN = "a call that came again was refused by its number"
    SWAP_LOST = "a swap met another's"
    SWAP_UNKNOWN = "a swap happened, and nobody was told"
    SWAP_LATE = "a swap happened after it had been given up"
    SWAP_OVERTAKEN = "a swap stood, and was built upon before its answer came"
    CRASHED_IN_CALL = "a process died in the middle of a call"
    CRASHED_IN_ACCEPT = "a process died while it accepted a recovery"
    FOUGHT = "a proposer lost against another"
    RECOVERED = "a recovery finalized what a writer left open"
    STALE_COPY_LEFT = "a copy that was overruled stayed at its acceptor"
    SEEN_IN_PROGRESS = "a reader saw a segment that was being written"
    TAILED = "a reader followed a writer batch by batch"
    TAILED_FROM_DISK = "a reader followed from disk what no cache had"
    PURGED = "segments were purged"
    DISCARDED = "segments were discarded"
    UPGRADED = "a journal was upgraded"
    ROLLED_BACK = "an upgrade was rolled back"
    FORMATTED_AGAIN = "a journal was formatted again"
    LEFT_OVER = "a ledger was left over by a call that never knew its outcome"
