"""Looks up in the metadata who may write to a ledger that this bookie has not seen yet, and whether the ledger's record
contains a fragment that is new to this bookie.

If the bookie believed the first client, a client without the password could claim the ledger on this bookie by arriving
before the writer. After the first request the bookie relies on its log, and asks the metadata again only after an
ensemble change. A writer updates the ledger record before it uses a new fragment (F6). If a writer has a fragment that
is missing from the metadata, the metadata was therefore rolled back to an older copy, and no reader would look on this
bookie for entries that it helped to confirm (W8).

A bookie remembers the metadata's answers. It looks a ledger up again at each fence, and whenever a request contains an
identity other than the one that the ledger has on this bookie. If the metadata was rolled back since the last look-up,
the bookie puts the cluster on hold. A client's claims do not prove a rollback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from google.protobuf.message import DecodeError

from metadata.errors import MetadataError
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import Headline

from ...storage.bookie import Bookie
from ...wire.messages import Frame, Status

LOOKUP_SECONDS_MAX = 3.0
"""Time limit for answers from the metadata; after that, the new ledgers of a stream are temporarily refused."""

LOOKUPS_AT_ONCE_MAX = 16
"""Limit on concurrent look-ups across all messages. A message may contain a thousand new ledgers: looking them up one
by one would take as many round trips, while without a limit clients could use the bookie to flood the metadata with
look-ups of made-up ledgers."""

REMEMBERED_MAX = 10_000
"""Limit on ledgers whose last look-up a bookie remembers; the oldest look-up is forgotten first."""

OLDER = "the metadata, which may be an older copy, does not contain this fragment of the ledger"


class Verifiers:
    """Looks up the verifiers of ledgers that the bookie has not seen, and fragments for which it has no note."""

    def __init__(
        self,
        bookie: Bookie,
        ledgers: LedgerStore,
        on_rollback: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._bookie = bookie
        self._ledgers = ledgers
        self._on_rollback = on_rollback
        self._remembered = dict[int, tuple[bytes, Headline]]()
        self._lookups = asyncio.Semaphore(LOOKUPS_AT_ONCE_MAX)
        self._round = 0

    def look_again(self) -> None:
        """Restarts the look-ups in progress, and forgets the remembered answers. An operator may be about to accept an
        older copy of the metadata, updated from notes. The notes of the frames being looked up are not among those
        notes yet (W8), and the current answers do not come from that copy."""
        self._round += 1
        self._remembered.clear()

    def knows(self, frame: Frame) -> bool:
        """Returns whether this frame needs no look-up."""
        state = self._bookie.states.peek(frame.ledger_id)
        if state.verifier is None or state.is_another(frame.identity):
            return False
        return not (frame.note and self._news_of(frame))

    def _news_of(self, frame: Frame) -> Headline | None:
        """Returns the fragment that the frame's note describes; None if the bookie has that note."""
        try:
            headline = fragment_note.headline(frame.note)
        except (DecodeError, ValueError):
            return None  # such a frame is refused when it is appended
        if self._bookie.verifier_of(frame.ledger_id) is None:
            return headline
        held = self._bookie.index.notes.of(frame.ledger_id).get(headline.first_entry)
        return None if held is not None and headline.is_older_than(fragment_note.headline(held)) else headline

    async def refused(self, frames: Iterable[Frame]) -> dict[int, tuple[Status, str]]:
        """Makes sure that each ledger's verifier is known; returns the ledgers that cannot be written to, and why.

        The result is valid until the caller awaits something: a ledger may be deleted at any time.
        """
        news, refused = dict[int, Headline | None](), dict[int, tuple[Status, str]]()
        others = set[int]()
        for frame in frames:
            news[frame.ledger_id] = self._news_of(frame) if frame.note else news.get(frame.ledger_id)
            if self._bookie.states.peek(frame.ledger_id).is_another(frame.identity):
                others.add(frame.ledger_id)
        for ledger_id in others:  # once per ledger, even if several frames contain another identity
            await self.look(ledger_id)
        wanted, round_ = dict(news), self._round
        while unknown := [n for n in wanted if n not in refused and self._is_unknown(n, wanted[n])]:
            for first in range(0, len(unknown), LOOKUPS_AT_ONCE_MAX):
                some = unknown[first : first + LOOKUPS_AT_ONCE_MAX]
                looking = [self._learn(n, wanted[n]) for n in some]
                # A single look-up, which is by far the most common case, needs no task.
                found = await asyncio.gather(*looking) if len(looking) > 1 else [await looking[0]]
                checked = zip(some, found, strict=True)
                refused |= {ledger_id: why for ledger_id, why in checked if why is not None}
            # Do not look these ledgers' fragments up again, unless `look_again` has begun a new round.
            wanted = wanted | dict.fromkeys(unknown) if round_ == self._round else dict(news)
            round_ = self._round
        return refused

    def _is_unknown(self, ledger_id: int, news: Headline | None) -> bool:
        return news is not None or self._bookie.verifier_of(ledger_id) is None

    async def look(self, ledger_id: int) -> None:
        """If the ledger was looked up before, checks whether the metadata has been rolled back since then, and if so
        puts the cluster on hold."""
        if ledger_id in self._remembered:
            await self._learn(ledger_id, None)

    async def _learn(self, ledger_id: int, news: Headline | None) -> tuple[Status, str] | None:
        try:
            async with self._lookups, asyncio.timeout(LOOKUP_SECONDS_MAX):
                forgets = self._bookie.states.forgets
                found = await self._read(ledger_id)
        except (MetadataError, TimeoutError) as error:
            if self._bookie.verifier_of(ledger_id) is not None:
                return None  # known ledgers do not need the metadata, so the writer may continue
            return Status.UNKNOWN, f"cannot look up who may write to the ledger: {error}"
        if found is not None and news is not None and news.is_ahead_of(found.record):
            return Status.FENCED, OLDER
        if forgets != self._bookie.states.forgets:
            # A ledger, perhaps this one, was forgotten in the meantime, and the record may predate that.
            return None
        if found is None:
            return Status.UNAUTHORIZED, "the ledger does not exist in the metadata"
        self._bookie.learn(found.record)
        return None

    async def _read(self, ledger_id: int) -> VersionedRecord | None:
        """Reads the ledger's record. Raises MetadataError, including when the metadata was rolled back but a hold
        cannot begin."""
        round_ = self._round
        found = await self._ledgers.read(ledger_id)
        if self._is_older(found):
            # Read again, because a later look-up may have been answered before this one.
            found = await self._ledgers.read(ledger_id)
            if (why := self._is_older(found)) and self._on_rollback is not None:
                await self._on_rollback(why)
        self._remembered.pop(ledger_id, None)
        if found is not None and round_ == self._round:
            last, is_closed = found.record.fragments[-1], found.record.is_closed
            self._remembered[ledger_id] = found.identity, Headline(last.first_entry, last.number, is_closed)
            if len(self._remembered) > REMEMBERED_MAX:
                del self._remembered[next(iter(self._remembered))]
        return found

    def _is_older(self, found: VersionedRecord | None) -> str:
        """Compares the record with the last answer. Returns a description of how the record shows that the metadata was
        rolled back, or "" if it does not."""
        if found is None or found.ledger_id not in self._remembered:
            return ""
        identity, stood = self._remembered[found.ledger_id]
        if identity != found.identity:
            return f"a different ledger {found.ledger_id} than before"
        is_older = not found.record.is_closed and stood.is_ahead_of(found.record)
        return f"ledger {found.ledger_id} in an earlier state than before" if is_older else ""
