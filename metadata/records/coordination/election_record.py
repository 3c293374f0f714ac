"""The latest term of each election. Terms are numbered by compare-and-swap; the number of a term is its token."""

from __future__ import annotations

from dataclasses import dataclass

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import MetadataStore
from ...version import encode_record
from .. import records_pb2 as pb
from ..record_decoding import parse_record
from .candidates import Candidate

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class TermRecord:
    """One term: its token, which increases from term to term, its leader, its start, and the key under which the leader
    was a candidate."""

    token: int
    leader: str
    since_ms: int
    candidate: str


async def begin_term(store: MetadataStore, election: str, leader: Candidate, since_ms: int) -> TermRecord:
    """Begins the next term. The term's token is never given to another leader. Raises MetadataError."""

    def next_term(last: TermRecord | None) -> TermRecord:
        return TermRecord(1 if last is None else last.token + 1, leader.name, since_ms, leader.key)

    # A conflict means that another leader has lost its lease and has not noticed yet.
    begun = await settled_writes.change(store, keys.election(election), next_term, decode, encode)
    assert begun.after is not None
    return begun.after


async def current_term(store: MetadataStore, election: str) -> TermRecord | None:
    """Returns the current leader's term; None if there is no leader. Raises MetadataError."""
    key = keys.election(election)
    found = await store.get(key)
    term = None if found is None else decode(key, found.value)
    return None if term is None or await store.get(term.candidate) is None else term


def decode(key: str, value: bytes) -> TermRecord:
    """Decodes a term. Raises BadRecord."""
    message = parse_record(pb.Election, key, value, FORMAT_VERSION, "election")
    if message.token < 1:
        raise BadRecord(key, f"a term cannot have the token {message.token}")
    return TermRecord(message.token, message.leader, message.since_ms, message.candidate)


def encode(term: TermRecord) -> bytes:
    """Encodes the value of `elections/<name>`."""
    return encode_record(
        pb.Election(
            format_version=FORMAT_VERSION,
            token=term.token,
            leader=term.leader,
            since_ms=term.since_ms,
            candidate=term.candidate,
            nonce=settled_writes.new_nonce(),
        )
    )
