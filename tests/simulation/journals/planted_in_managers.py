"""Rules of writers and readers broken on purpose, one at a time; each says what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ledgers.protocol.quorum import Quorum
from qjm_compat.manager import proposer, segments_seen
from qjm_compat.manager.channel import Channel
from qjm_compat.manager.proposer import Proposer
from qjm_compat.manager.proposer_effects import Need
from qjm_compat.requests import JournaledEdits
from tests.simulation.engine.planted import Real, around, bug, instead_of
from tests.simulation.journals import users

Patch = pytest.MonkeyPatch


@instead_of(Need, "quorum", within=20, known=1)
def one_is_a_majority(self: Need, acceptors: Any) -> Any:
    """The canary: whatever one acceptor says is taken for decided."""
    return Quorum(tuple(range(acceptors)), 1)


@instead_of(Proposer, "recover_unclosed_segment", within=50, known=2)
def writes_without_recovering(self: Proposer, start_txid: int) -> Any:
    """Goes on behind what is finalized, whatever is open."""
    yield from ()


@around(Proposer, "_majority", within=50, known=2)
def recovers_without_accepting(
    majority: Real, self: Proposer, what: str, request: Any, seconds_max: float
) -> Any:
    """Finalizes the best copy where it happens to be."""
    if what.startswith("acceptRecovery"):
        return {}
    return (yield from majority(self, what, request, seconds_max))


@instead_of(proposer, "max_seen_epoch", within=2_000, known=914)
def the_longest_copy_wins(reply: Any) -> Any:
    """§2.10.6: edits of an earlier writer, longer than what a later one wrote."""
    return 0


@instead_of(proposer, "max_seen_epoch", within=8_000, known=2188)
def ignores_what_was_accepted(reply: Any) -> Any:
    """§2.10.7: an earlier recovery chose, and finalized somewhere."""
    return reply.last_writer_epoch


@instead_of(proposer, "max_seen_epoch", within=2_000, known=914)
def ignores_who_wrote_last(reply: Any) -> Any:
    """§2.10.6, with the acceptors' own word for it left out."""
    return reply.accepted_in_epoch or 0


@instead_of(proposer, "best_source", within=1_000, known=188)
def takes_the_first_copy(replies: Any) -> int:
    """No comparison at all: the first that has something."""
    return next((int(n) for n in sorted(replies) if replies[n].segment is not None), int(min(replies)))


@instead_of(segments_seen, "_durable", within=1_000, known=184)
def shows_what_is_not_durable(copies: Any, quorum: Any) -> Any:
    """J6, Q14: what only one acceptor has."""
    return max(c.log.end_txid for c in copies)


@around(segments_seen, "_in_progress", within=5_000, known=938)
def counts_copies_of_different_writers(
    in_progress: Real, start: int, copies: Any, quorum: Any, *, only_durable: bool
) -> Any:
    """J6: two acceptors have something at a txid, and not the same."""
    same = [replace(copy, log=replace(copy.log, writer_epoch=1)) for copy in copies]
    return in_progress(start, same, quorum, only_durable=only_durable)


@around(segments_seen, "_in_progress")
def counts_copies_of_different_recoveries(
    in_progress: Real, start: int, copies: Any, quorum: Any, *, only_durable: bool
) -> Any:
    """J6: what a writer left at one acceptor counts together with what a recovery accepted at another."""
    same = [replace(copy, log=replace(copy.log, accepted_in_epoch=0)) for copy in copies]
    return in_progress(start, same, quorum, only_durable=only_durable)


@bug()
def merges_answers_of_different_times(patch: Patch) -> None:
    """J5: what a reader heard before it stood still counts together with what it heard after."""
    patch.setattr(segments_seen, "LOOKS_MAX", 1)


@instead_of(users, "durable_edits", within=500, known=100)
def follows_what_is_not_durable(replies: Any, quorum: Any) -> tuple[JournaledEdits, int] | None:
    """J6: a follower is given the longest answer."""
    longest = max(replies.values(), key=lambda reply: reply.txn_count)
    return (longest, longest.txn_count) if longest.txn_count else None


@around(Channel, "_numbered", within=10, known=0)
def numbers_nothing(numbered: Real, self: Channel, request: Any) -> Any:
    """Every call has the same number."""
    self._serial = 0
    return numbered(self, request)
