"""Backup file format: JSON lines, easy to read, store and compare, with a checksum.

{"bookledger": "metadata backup", "format_version": 1, "cluster_id": "…", "created_ms": …}
{"key": "ledgers/0000000000000001", "value": "…base64…"}
…
{"end": true, "keys": …, "sha256": "…of all bytes before this line…"}
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import IO, Any

from ..errors import BackupUnusable
from ..store import VALUE_BYTES_MAX

FORMAT = "metadata backup"
FORMAT_VERSION = 1

LINE_BYTES_MAX = 2 * VALUE_BYTES_MAX
"""Maximum length of the line of one key: the value in base64, plus space for the other fields."""


@dataclass(frozen=True, slots=True)
class Header:
    """The cluster that was backed up, and when the backup began."""

    cluster_id: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class Item:
    """One key and its value."""

    key: str
    value: bytes


class BackupWriter:
    """Writes a backup to an open file: the header first, `end` last. The caller syncs and names the file."""

    def __init__(self, file: IO[bytes], header: Header) -> None:
        self._file = file
        self._sum = hashlib.sha256()
        self.keys = 0
        self._line({"bookledger": FORMAT, "format_version": FORMAT_VERSION, **asdict(header)})

    def add(self, item: Item) -> None:
        self._line({"key": item.key, "value": base64.b64encode(item.value).decode()})
        self.keys += 1

    def end(self) -> None:
        self._line({"end": True, "keys": self.keys, "sha256": self._sum.hexdigest()})

    def _line(self, fields: dict[str, Any]) -> None:
        line = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        self._sum.update(line)
        self._file.write(line)


def read_header(file: IO[bytes]) -> Header:
    """Reads the header, whatever the file's current position. Raises BackupUnusable if the file is not a backup that
    this program can read."""
    file.seek(0)
    fields = _fields(file.readline(LINE_BYTES_MAX), 1)
    if fields.get("bookledger") != FORMAT:
        raise BackupUnusable("it is not a backup of bookledger's metadata")
    if fields.get("format_version") != FORMAT_VERSION:
        raise BackupUnusable(
            f"it has format version {fields.get('format_version')}; this program supports {FORMAT_VERSION}"
        )
    return Header(_of(fields, "cluster_id", str, 1), _of(fields, "created_ms", int, 1))


def read_items(file: IO[bytes]) -> Iterator[Item]:
    """Yields every key, from the beginning of the file. Raises BackupUnusable, possibly only at the end, so a caller
    must read all keys once before it acts on any of them."""
    read_header(file)
    file.seek(0)
    counted = hashlib.sha256(file.readline(LINE_BYTES_MAX))
    keys, number = 0, 1
    while line := file.readline(LINE_BYTES_MAX):
        number += 1
        fields = _fields(line, number)
        if fields.get("end"):
            if fields.get("sha256") != counted.hexdigest() or fields.get("keys") != keys:
                raise BackupUnusable("it is damaged (checksum mismatch): use another backup")
            if file.read(1):
                raise BackupUnusable(f"the file continues after its end record, in line {number + 1}")
            return
        counted.update(line)
        keys += 1
        yield _item(fields, number)
    raise BackupUnusable(f"it is cut off after line {number}. Use another backup")


def _item(fields: dict[str, Any], number: int) -> Item:
    try:
        value = base64.b64decode(_of(fields, "value", str, number), validate=True)
    except ValueError as error:
        raise BackupUnusable(f"line {number} is damaged: {error}. Use another backup") from error
    return Item(_of(fields, "key", str, number), value)


def _of(fields: dict[str, Any], name: str, kind: type, number: int) -> Any:
    found = fields.get(name)
    if not isinstance(found, kind):
        raise BackupUnusable(f"line {number} is damaged: it has no {name}. Use another backup")
    return found


def _fields(line: bytes, number: int) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BackupUnusable(f"line {number} is not JSON: the file is damaged, or is not a backup") from error
    if not isinstance(fields, dict):
        raise BackupUnusable(f"line {number} is not a JSON object: the file is damaged, or is not a backup")
    return fields
