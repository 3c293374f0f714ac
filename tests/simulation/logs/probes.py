"""Rare paths of logs that random schedules must take; a campaign that missed one tested less."""

from __future__ import annotations

from enum import Enum


class LogProbe(Enum):
    """Each is taken by some of any thousand seeds."""

    FENCED = "a writer was fenced"
    ROLLED = "a segment ended while its writer went on"
    RECOVERED = "a writer went on after its segment had failed"
    CRASHED = "a writer's process died while records were under way"
    TRUNCATED = "a reader stood where all was given up"
    HELD = "a truncation was refused under a hold"
    DELETED = "a ledger was deleted"
    SWEPT = "an audit found a ledger that no log needs"
    PAGED = "segments were moved to a page"
    RENAMED = "the log got another name"
    CONTESTED = "another log got the name first"
    UNKNOWN = "the outcome of a change was lost for good"
    RETRIED = "a producer got the position of a record that an earlier writer had stored"
    RETAINED = "an auditor gave records up by itself"
    SILENT = "a cursor counted no more"
    DEPOSED = "a leader's term was over while it wrote"
    GROWN = "a set of logs grew"
    MOVED = "a member used a log to which keys had moved"
    STUCK = "a group went on after a log was truncated, or a member died or hung"
    OWN_END = "a program used the log right behind what it was told of"
    REFUSED = "a commit beyond the end was refused"
    ORDERED = "all logs of a set had what was ordered"
    STRANGER = "a log that is none of a set had the name of one"
    BROUGHT_UP = "a log whose metadata had gone back was brought up to its ledgers"
    FORKED = "a log was forked"
    FORKED_AGAIN = "a fork was forked"
    RESTORED = "a fork was taken back to an earlier state"
    RESTORED_IN_PART = "somebody died who was taking a fork back"
    FORKED_IN_PART = "somebody died who was forking a log"
    USED_AGAIN = "a member used what one before it had used, too"
