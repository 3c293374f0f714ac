"""Rules of writers and readers broken on purpose, one at a time; each says what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ledgers.protocol.quorum import Quorum
from qjm_compat.manager import recovery_source, segments_seen
from qjm_compat.manager.channel import Channel
from qjm_compat.manager.effects import Need
from qjm_compat.manager.proposer import Proposer
from qjm_compat.requests import JournaledEdits

Patch = pytest.MonkeyPatch


def one_is_a_majority(patch: Patch) -> None:
    """The canary: whatever one acceptor says is taken for decided."""
    patch.setattr(Need, "quorum", lambda self, acceptors: Quorum(tuple(range(acceptors)), 1))


def writes_without_recovering(patch: Patch) -> None:
    """Goes on behind what is finalized, whatever is open."""

    def broken(self: Proposer, start_txid: int) -> Any:
        yield from ()

    patch.setattr(Proposer, "recover_unclosed_segment", broken)


def recovers_without_accepting(patch: Patch) -> None:
    """Finalizes the best copy where it happens to be."""
    majority = Proposer._majority

    def broken(self: Proposer, what: str, request: Any, seconds_max: float) -> Any:
        if what.startswith("acceptRecovery"):
            return {}
        return (yield from majority(self, what, request, seconds_max))

    patch.setattr(Proposer, "_majority", broken)


def the_longest_copy_wins(patch: Patch) -> None:
    """§2.10.6: edits of an earlier writer, longer than what a later one wrote."""
    patch.setattr(recovery_source, "max_seen_epoch", lambda reply: 0)


def ignores_what_was_accepted(patch: Patch) -> None:
    """§2.10.7: an earlier recovery chose, and finalized somewhere."""
    patch.setattr(recovery_source, "max_seen_epoch", lambda reply: reply.last_writer_epoch)


def ignores_who_wrote_last(patch: Patch) -> None:
    """§2.10.6, with the acceptors' own word for it left out."""
    patch.setattr(recovery_source, "max_seen_epoch", lambda reply: reply.accepted_in_epoch or 0)


def takes_the_first_copy(patch: Patch) -> None:
    """No comparison at all: the first that has something."""

    def broken(replies: Any) -> int:
        return next((int(n) for n in sorted(replies) if replies[n].segment is not None), int(min(replies)))

    patch.setattr("qjm_compat.manager.proposer.best_source", broken)


def shows_what_is_not_durable(patch: Patch) -> None:
    """J6, Q14: what only one acceptor has."""
    patch.setattr(segments_seen, "_durable", lambda copies, quorum: max(c.log.end_txid for c in copies))


def counts_copies_of_different_writers(patch: Patch) -> None:
    """J6: two acceptors have something at a txid, and not the same."""
    in_progress = segments_seen._in_progress

    def broken(start: int, copies: Any, quorum: Any, *, only_durable: bool) -> Any:
        same = [replace(copy, log=replace(copy.log, writer_epoch=1)) for copy in copies]
        return in_progress(start, same, quorum, only_durable=only_durable)

    patch.setattr(segments_seen, "_in_progress", broken)


def counts_copies_of_different_recoveries(patch: Patch) -> None:
    """J6: what a writer left at one acceptor counts together with what a recovery accepted at another."""
    in_progress = segments_seen._in_progress

    def broken(start: int, copies: Any, quorum: Any, *, only_durable: bool) -> Any:
        same = [replace(copy, log=replace(copy.log, accepted_in_epoch=0)) for copy in copies]
        return in_progress(start, same, quorum, only_durable=only_durable)

    patch.setattr(segments_seen, "_in_progress", broken)


def merges_answers_of_different_times(patch: Patch) -> None:
    """J5: what a reader heard before it stood still counts together with what it heard after."""
    patch.setattr(segments_seen, "LOOKS_MAX", 1)


def follows_what_is_not_durable(patch: Patch) -> None:
    """J6: a follower is given the longest answer."""

    def broken(replies: Any, quorum: Any) -> tuple[JournaledEdits, int] | None:
        longest = max(replies.values(), key=lambda reply: reply.txn_count)
        return (longest, longest.txn_count) if longest.txn_count else None

    patch.setattr("tests.simulation.journals.users.durable_edits", broken)


def numbers_nothing(patch: Patch) -> None:
    """Every call has the same number."""
    numbered = Channel._numbered

    def broken(self: Channel, request: Any) -> Any:
        self._serial = 0
        return numbered(self, request)

    patch.setattr(Channel, "_numbered", broken)
