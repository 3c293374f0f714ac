"""Rebuilds all metadata keys of a cluster from the data on its bookies, after the metadata was lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace

from bookie.wire.messages import HeldNote
from metadata import keys
from metadata.backup.backup_file import Item
from metadata.errors import BadRecord
from metadata.records import journal_record, ledger_codec, ledger_ids
from metadata.records.cluster import Cookie, encode_layout
from metadata.records.coordination import election_record
from metadata.records.coordination.election_record import TermRecord
from metadata.records.fragment import BookieRef
from metadata.records.ledger_record import LedgerRecord
from metadata.records.logs import log_codec, log_set_record
from metadata.records.logs.log_ledgers import segment_of
from metadata.records.logs.log_record import LogRecord
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import FragmentNote
from metadata.records.notes.record_reconstruction import NotedBy, of_one_ledger, reconcile
from metadata.settled_writes import new_nonce

from .journals import acceptor_of, rebuilt_acceptor
from .logs import EPOCHS_LEFT, RebuiltLog, forks_of, rebuilt_log


@dataclass(frozen=True, slots=True)
class RebuiltLedger:
    """The rebuilt record of a ledger, and what is not known about the ledger."""

    record: LedgerRecord
    doubts: tuple[str, ...] = ()


def rebuilt_ledger(noted: Sequence[NotedBy]) -> RebuiltLedger:
    """Returns the record of one ledger, from all notes about its id. Raises ValueError if the notes contradict each
    other."""
    record = reconcile(None, noted)
    assert record is not None
    ours = of_one_ledger(record, noted)
    return RebuiltLedger(record, (*_missing(ours), *_others(noted, ours)))


def _missing(noted: Sequence[NotedBy]) -> Iterator[str]:
    first = min(one.note.fragment.first_entry for one in noted)
    if first > 0:
        yield f"no bookie noted the location of the entries before {first}"
    numbers = {one.note.fragment.number for one in noted}
    lost = sorted({*range(1, max(numbers) + 1)} - numbers) if min(numbers) == 1 else []
    if lost:
        yield f"no bookie noted its fragment {', '.join(map(str, lost))}, which may contain some of the entries"


def _others(noted: Sequence[NotedBy], ours: Sequence[NotedBy]) -> Iterator[str]:
    if len(ours) < len(
        noted
    ):  # the store was once restored to an older state, and assigned the id twice (rule W8)
        yield "another ledger has the same id, and is omitted"


DOUBTS_MAX = 1000
"""Maximum number of doubts that are listed; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class BookieSource:
    """A bookie, either running or as a directory, and the ledgers that it holds, by ledger id and first entry."""

    cookie: Cookie
    notes: AsyncGenerator[HeldNote, None]

    @property
    def bookie(self) -> BookieRef:
        return BookieRef(self.cookie.bookie_id, self.cookie.incarnation)


OBJECT_STORE = BookieRef("object-store", "none")


def _noted_of(copies: Sequence[LedgerRecord]) -> dict[int, list[NotedBy]]:
    """Returns notes made from copies in an object store, by ledger id. A copy is treated like a note from a bookie that
    has dropped the ledger."""
    return {
        one.ledger_id: [NotedBy(OBJECT_STORE, FragmentNote.of(one, fragment)) for fragment in one.fragments]
        for one in copies
    }


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that is not known about a ledger, a log, a journal or a bookie."""

    about: str
    doubt: str


@dataclass(slots=True)
class Rebuilding:
    """Yields the rebuilt keys of the metadata, and counts what they contain. `items` may be called only once."""

    sources: Sequence[BookieSource]
    copies: Sequence[LedgerRecord] = ()
    """Ledgers that were found in an object store."""
    ledgers: int = 0
    closed: int = 0
    journals: int = 0
    logs: int = 0
    unknown: int = 0
    """The number of ledgers with entries but without a note."""
    doubts: list[Doubt] = field(default_factory=list)
    doubts_omitted: int = 0
    _last_id: int = 0
    _named: dict[str, tuple[int, BookieRef]] = field(default_factory=dict)
    _of_logs: dict[bytes, list[LedgerRecord]] = field(default_factory=lambda: defaultdict(list))
    _terms: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _of_journals: dict[tuple[str, str], list[LedgerRecord]] = field(default_factory=lambda: defaultdict(list))

    @property
    def cluster_id(self) -> str:
        """The id of the bookies' cluster. Raises ValueError if the bookies belong to different clusters."""
        found = {one.cookie.cluster_id for one in self.sources}
        if len(found) != 1:
            raise ValueError(f"these bookies belong to different clusters: {', '.join(sorted(found))}")
        return found.pop()

    async def items(self) -> AsyncGenerator[Item, None]:
        """Yields all keys. Raises ValueError if the bookies do not belong together; errors from reading them are passed
        on."""
        cookies = _cookies(self.sources)
        layout = Item(keys.LAYOUT, encode_layout(self.cluster_id))
        copies = _noted_of(self.copies)
        async with aclosing(_by_ledger(self.sources)) as by_ledger:
            async for ledger_id, found in by_ledger:
                record = self._ledger(ledger_id, found, copies.pop(ledger_id, ()))
                if record is not None:
                    yield self._noted(record)
        for ledger_id, of_copy in sorted(copies.items()):
            if (record := self._ledger(ledger_id, (), of_copy)) is not None:
                yield self._noted(record)
        named_only = list(self._named_only(cookies))
        for item in (*self._journals(), *self._logs(is_whole=not named_only), *self._elections()):
            yield item
        for one in (*cookies.values(), *named_only):
            yield Item(keys.cookie(one.bookie_id), one.encode())
        if self._last_id:
            yield Item(keys.NEXT_LEDGER_ID, ledger_ids.encode(min(self._last_id + 1, keys.LEDGER_ID_MAX)))
        yield layout

    def _noted(self, record: LedgerRecord) -> Item:
        self._note(record)
        return Item(keys.ledger(record.ledger_id), ledger_codec.encode(record))

    def _ledger(
        self, ledger_id: int, found: Sequence[tuple[BookieRef, HeldNote]], of_copies: Sequence[NotedBy]
    ) -> LedgerRecord | None:
        self._last_id = max(self._last_id, ledger_id)
        noted = list(of_copies)
        for by, held in found:
            try:
                if held.note:
                    noted.append(NotedBy(by, fragment_note.decode(held.note)))
            except BadRecord as error:
                self._doubt(f"ledger {ledger_id}", f"the note of bookie {by} cannot be read: {error}")
        if not noted:
            self.unknown += 1
            self._doubt(f"ledger {ledger_id}", "it has entries, but no bookie has a note of it")
            return None
        try:
            rebuilt = rebuilt_ledger(noted)
        except ValueError as error:
            self._doubt(f"ledger {ledger_id}", f"its notes contradict each other: {error}")
            return None
        for doubt in rebuilt.doubts:
            self._doubt(f"ledger {ledger_id}", doubt)
        return rebuilt.record

    def _note(self, record: LedgerRecord) -> None:
        self.ledgers += 1
        self.closed += record.is_closed
        for ref in {ref for fragment in record.fragments for ref in fragment.ensemble}:
            latest = max(self._named.get(ref.bookie_id, (-1, ref)), (record.created_ms, ref))
            self._named[ref.bookie_id] = latest
        if (of := segment_of(record.custom_metadata)) is not None:
            self._of_logs[of.identity].append(record)
        if (acceptor := acceptor_of(record)) is not None:
            self._of_journals[acceptor].append(record)

    def _journals(self) -> Iterator[Item]:
        for (journal_id, name), ledgers in sorted(self._of_journals.items()):
            about = f"acceptor {name} of journal {journal_id}"
            rebuilt = rebuilt_acceptor(ledgers)
            if rebuilt is None or not (keys.is_name(journal_id) and keys.is_name(name)):
                self._doubt(about, "its ledgers do not contain the namespace of its edits")
                continue
            self.journals += 1
            for doubt in rebuilt.doubts:
                self._doubt(about, doubt)
            state = journal_record.encode_state(rebuilt.state)
            yield Item(keys.journal_state(journal_id, name), state)
            for one in rebuilt.finalized:
                key = keys.journal_segment(journal_id, name, one.start_txid)
                yield Item(key, journal_record.encode_finalized(one, new_nonce()))

    def _logs(self, *, is_whole: bool) -> Iterator[Item]:
        """Yields the keys of logs. A log is put under legal hold if a part of it may be missing, because a bookie that
        comes back later may have that part, and ledgers that no log needs would otherwise be deleted."""
        names: set[str] = set()
        of_sets: dict[bytes, list[LogRecord]] = defaultdict(list)
        latest_first = sorted(
            self._of_logs.values(), key=lambda ledgers: -max(one.created_ms for one in ledgers)
        )
        all_rebuilt = [rebuilt_log(ledgers, others=self._of_logs) for ledgers in latest_first]
        forks = forks_of(one.record for one in all_rebuilt)
        for rebuilt in all_rebuilt:
            name = rebuilt.record.name
            if name in names:
                name = f"{name[:100]}.{rebuilt.record.identity.hex()[:16]}"
                self._doubt(
                    f"log {rebuilt.record.name}",
                    f"another log with this name is newer, so this one is now called {name}",
                )
            names.add(name)
            self.logs += 1
            for doubt in rebuilt.doubts:
                self._doubt(f"log {name}", doubt)
            record = rebuilt.record
            if record.token:
                self._terms[record.election] = max(self._terms[record.election], record.token)
            is_held = not is_whole or bool(rebuilt.doubts) or record.legal_hold
            if is_held and not record.legal_hold:
                self._doubt(f"log {name}", "it is now under legal hold, because a part of it may be missing")
            yield from _items_of_log(
                rebuilt, replace(record, name=name, legal_hold=is_held, forks=forks.get(record.identity, ()))
            )
            if record.member is not None:
                of_sets[record.member.log_set].append(record)
        for log_set in map(log_set_record.made_again, of_sets.values()):
            yield Item(keys.log_set(log_set.model.name), log_set_record.encode(log_set))

    def _elections(self) -> Iterator[Item]:
        """Yields the elections to which logs refer. The next term of each election is higher than all terms that have
        written to its logs (rule L7)."""
        for name, token in sorted(self._terms.items()):
            nobody = TermRecord(token + EPOCHS_LEFT, "", 0, f"{keys.CANDIDATES}{name}/lost")
            yield Item(keys.election(name), election_record.encode(nobody))

    def _named_only(self, cookies: dict[str, Cookie]) -> Iterator[Cookie]:
        """Yields the cookies of bookies that were not asked but to which ledgers refer, because these bookies may start
        again."""
        for name, (_, ref) in sorted(self._named.items()):
            if name not in cookies:
                self._doubt(
                    f"bookie {name}",
                    "it was not asked; once it is back, it reports the data that only it has",
                )
                yield Cookie(self.cluster_id, name, ref.incarnation)

    def _doubt(self, about: str, doubt: str) -> None:
        if len(self.doubts) < DOUBTS_MAX:
            self.doubts.append(Doubt(about, doubt))
        else:
            self.doubts_omitted += 1


def _cookies(sources: Sequence[BookieSource]) -> dict[str, Cookie]:
    """Returns the cookies by name. If two disks have the same name, the cookie is that of the disk that replaced the
    other. Raises ValueError if neither replaced the other."""
    found: dict[str, Cookie] = {}
    for one in (source.cookie for source in sources):
        known = found.setdefault(one.bookie_id, one)
        if known.incarnation in one.predecessors:
            found[one.bookie_id] = one
        elif known is not one and one.incarnation not in known.predecessors:
            raise ValueError(
                f"two of these bookies are called {one.bookie_id}, and neither replaced the other"
            )
    return found


def _items_of_log(rebuilt: RebuiltLog, record: LogRecord) -> Iterator[Item]:
    yield Item(keys.log(record.identity), log_codec.encode(record))
    yield Item(keys.log_name(record.name), log_codec.encode_name(record.identity, new_nonce()))
    for page in rebuilt.pages:
        end, ended_us = page[-1].end_position, page[-1].ended_us
        assert end is not None
        yield Item(keys.log_page(record.identity, end), log_codec.encode_page(page, new_nonce()))
        time_key = keys.log_time(record.identity, ended_us, end)
        yield Item(time_key, log_codec.encode_page_time(end, new_nonce()))


async def _by_ledger(
    sources: Sequence[BookieSource],
) -> AsyncGenerator[tuple[int, list[tuple[BookieRef, HeldNote]]], None]:
    """Yields all notes about one ledger, and then those about the next; each bookie lists its ledgers in order."""
    async with AsyncExitStack() as stack:
        heads: dict[int, HeldNote] = {}
        notes = [await stack.enter_async_context(aclosing(source.notes)) for source in sources]

        async def advance(n: int) -> None:
            if (following := await anext(notes[n], None)) is None:
                del heads[n]
            else:
                heads[n] = following

        for n, of in enumerate(notes):
            if (first := await anext(of, None)) is not None:
                heads[n] = first
        while heads:
            ledger_id = min(head.ledger_id for head in heads.values())
            found = []
            for n in [n for n, head in heads.items() if head.ledger_id == ledger_id]:
                while n in heads and heads[n].ledger_id == ledger_id:
                    found.append((sources[n].bookie, heads[n]))
                    await advance(n)
            yield ledger_id, found
