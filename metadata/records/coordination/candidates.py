"""A queue of candidates for one record: keys under leases. The earliest candidate leads."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import PAGE_KEYS_MAX, EventKind, MetadataStore, Versioned, list_some
from .. import records_pb2 as pb
from ..record_decoding import parse_record

FORMAT_VERSION = 1

NAME_CHARACTERS_MAX = 256


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate that leads or waits, and since when. `version` is its place in the queue, because the key of a
    candidate is never changed."""

    key: str
    version: int
    name: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Queue:
    """The candidates, the earliest first, at a revision of the store."""

    candidates: tuple[Candidate, ...]
    revision: int

    def before(self, candidate: Candidate) -> Candidate | None:
        """Returns the candidate just ahead of this one in the queue, for which this one waits; None if this one is the
        first."""
        earlier = [one for one in self.candidates if one.version < candidate.version]
        return earlier[-1] if earlier else None

    def has(self, candidate: Candidate) -> bool:
        return candidate in self.candidates


class CandidateStore:
    """The candidates for the record under the key `led`. All methods raise MetadataError."""

    def __init__(self, store: MetadataStore, led: str) -> None:
        self.store = store
        self.led = led

    def entry(self, name: str, since_ms: int) -> tuple[str, bytes]:
        """Returns a unique key and its value. A program that creates the key under a lease joins the end of the
        queue."""
        name = name[:NAME_CHARACTERS_MAX]
        value = pb.Candidate(format_version=FORMAT_VERSION, name=name, since_ms=since_ms).SerializeToString()
        return keys.candidate(self.led, settled_writes.new_nonce()), value

    async def queue(self) -> Queue:
        """Returns all candidates that lead or wait. Raises BadRecord if there are more than fit on one page."""
        prefix = keys.candidates(self.led)
        page = await list_some(self.store, prefix)
        if page.next_after is not None:
            raise BadRecord(prefix, f"more than {PAGE_KEYS_MAX} candidates are waiting: start fewer")
        found = sorted(map(decode, page.items), key=lambda one: one.version)
        return Queue(tuple(found), page.revision)

    async def gone(self, candidate: Candidate, after_revision: int) -> None:
        """Waits until the candidate leaves; returns at once if it has left since this revision."""
        events = self.store.watch(candidate.key, after_revision=after_revision)
        async with aclosing(events) as events:
            async for event in events:
                if event.kind is EventKind.DELETE:
                    return


def decode(item: Versioned) -> Candidate:
    """Decodes a candidate. A candidate written by a newer program also has a place in the queue; only its name is
    unknown."""
    try:
        message = parse_record(pb.Candidate, item.key, item.value, FORMAT_VERSION, "candidate")
    except BadRecord:
        return Candidate(item.key, item.version, "", 0)
    return Candidate(item.key, item.version, message.name, message.since_ms)
