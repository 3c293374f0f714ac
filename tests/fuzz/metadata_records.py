"""What is read from the metadata, and the files that hold a copy of it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from metadata import keys
from metadata.backup import backup_file as backup
from metadata.errors import BackupUnusable, BadRecord
from metadata.healing import absent_bookies, lease_lock, marks, operator_requests, planned_moves
from metadata.records import journal_record, ledger_codec, ledger_ids, registration
from metadata.records.cluster import Cookie
from metadata.records.coordination import candidates, cursor_record, election_record
from metadata.records.ledger_record import BookieRef, Fragment, Lacking, LedgerRecord, Shape
from metadata.records.logs import log_codec, silences
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.segment import Segment
from metadata.store import Versioned

from .target import Target

BOOKIE = BookieRef("b1", "i1")
LEDGER = LedgerRecord(
    7,
    Shape(2, 2, 1),
    (Fragment(0, (BOOKIE, BookieRef("b2", "i2")), 0, (Lacking(1, 3, 5),)),),
    custom_metadata={"name": b"value"},
)
LOG = LogRecord(
    bytes(16), "orders", segments=(Segment(7, 0, 1, 5, 3, 9, 30), Segment(8, 3, 1, 9)), election="e", token=7
)
REGISTRATION = registration.Registration(BOOKIE, "host:3181", "rack 1", version="0.4")


def targets() -> list[Target]:
    return [
        _of("cookie", cookie, [Cookie("c1", "b1", "i1").encode()]),
        _of("registration", registered, [REGISTRATION.encode()]),
        _of(
            "ledger_record",
            ledger_record,
            [ledger_codec.encode(LEDGER), ledger_codec.encode_tombstone(b"nonce")],
        ),
        _of(
            "journal_state", lambda data: journal_record.decode_state("journals/j/a/state", data), _journals()
        ),
        _of(
            "finalized_segment",
            lambda data: journal_record.decode_finalized("journals/j/a/segments/1", data),
            [journal_record.encode_finalized(journal_record.FinalizedSegment(1, 9, 7, -67, 3, 0), b"nonce")],
        ),
        _of("next_id", lambda data: ledger_ids._decode("ids/ledger", data), [b"\x08\x05"]),
        _of("log", lambda data: log_codec.decode("logs/l", data), [log_codec.encode(LOG)]),
        _of(
            "log_page",
            lambda data: log_codec.decode_page("logpages/l/1", data),
            [log_codec.encode_page(LOG.segments[:1], b"nonce")],
        ),
        _of(
            "election",
            lambda data: election_record.decode("elections/e", data),
            [b"\x08\x01\x10\x07\x1a\x01a"],
        ),
        _of(
            "cursor",
            lambda data: cursor_record.decode("cursors/l/c", data),
            [b"\x08\x01\x10\x07\x18\x01\x20\x02"],
        ),
        _of(
            "silences",
            lambda data: silences.decode("silences/l", data),
            [b"\x08\x01\x12\x07\x0a\x01c\x10\x05\x18\x07"],
        ),
        _of(
            "candidate", lambda data: candidates.decode(_item("candidates/e/n", data)), [b"\x08\x01\x12\x01a"]
        ),
        _of("holder", lambda data: lease_lock.decode("healing/office", data), [b"\x08\x01"]),
        _of(
            "absence", lambda data: absent_bookies._decode("healing/absent/b1", data), [b"\x08\x01\x12\x02b1"]
        ),
        _of(
            "order",
            lambda data: operator_requests._decode("healing/orders/b1", data),
            [b"\x08\x01\x12\x02b1"],
        ),
        _of("mark", lambda data: marks._decode("underreplicated/7", data), [b"\x08\x01"]),
        _of("moves", lambda data: planned_moves._decode("moves/7", data), [b"\x08\x01"]),
        Target("backup", read_backup, (BackupUnusable,), lambda: [a_backup()]),
    ]


def cookie(data: bytes) -> None:
    found = Cookie.decode("cookies/b1", data)
    assert Cookie.decode("cookies/b1", found.encode()) == found


def registered(data: bytes) -> None:
    found = registration.decode(REGISTRATION.key, data)
    assert registration.decode(REGISTRATION.key, found.encode()) == found


def ledger_record(data: bytes) -> None:
    """It may be written again, and says what a ledger can be."""
    found = ledger_codec.decode(keys.ledger(7), data)
    if isinstance(found, LedgerRecord):
        assert ledger_codec.decode(keys.ledger(7), ledger_codec.encode(found)) == found
        has_end = found.last_entry is not None and found.length_bytes is not None
        assert has_end == found.is_closed


def read_backup(data: bytes) -> None:
    file = io.BytesIO(data)
    backup.read_header(file)
    for _ in backup.read_items(file):
        pass


def a_backup() -> bytes:
    file = io.BytesIO()
    writer = backup.BackupWriter(file, backup.Header("c1", 1_700_000_000_000))
    writer.add(backup.Item("ledgers/7", ledger_codec.encode(LEDGER)))
    writer.end()
    return file.getvalue()


def _of(name: str, parse: Callable[[bytes], Any], seeds: list[bytes]) -> Target:
    return Target(name, parse, (BadRecord,), lambda: seeds)


def _item(key: str, value: bytes) -> Versioned:
    return Versioned(key, value, 1)


def _journals() -> list[bytes]:
    return [journal_record.encode_state(journal_record.JournalState())]
