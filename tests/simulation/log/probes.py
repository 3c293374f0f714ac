"""Paths of log, index and codec that the second layer must take, by name; a campaign that missed one tested less."""

from __future__ import annotations

from enum import Enum


class WetProbe(Enum):
    """Each is taken by some of any few hundred seeds."""

    ROLLED = "a segment was sealed and the next begun"
    STARTED_IN_THE_MIDDLE = "a start replayed from a checkpoint in the middle of a segment"
    TAIL_CUT = "a torn tail was cut"
    UNBEGUN_REMOVED = "a segment without its header was removed"
    SURVIVED = "a record that was not synced was found after a crash"
    WRITE_INTERRUPTED = "the power went in the middle of a group"
    START_INTERRUPTED = "the power went in the middle of a start"
    KILLED = "a process died and its page cache lived on"
    REFUSED_TO_START = "damage kept a bookie from starting"
    RECORD_DAMAGED = "a record that did not fit its checksum or place was called damaged"
    READ_FAILED = "a read failed, and its entries were called damaged"
    WRITTEN = "a record with deferred sync was answered before its sync"
    DISK_FULL = "a full disk refused a record"
    UNAUTHORIZED = "a ledger's verifier kept somebody out"
    MESSAGE_REFUSED = "a message that was damaged on its way was refused"
    CHECKPOINT_WHILE_READING = "a checkpoint ended while a page was read"
    FORMATTED_ANEW = "an empty disk was refused, then formatted"
    FOREIGN_DISK = "the disk of another bookie was refused"
