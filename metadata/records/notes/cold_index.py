"""The index at the end of an object: its ledger, and the positions of the blocks of entries."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from .. import ledger_codec
from .. import records_pb2 as pb
from ..ledger_record import LedgerRecord

FORMAT_VERSION = 1


@dataclass(slots=True)
class ColdIndex:
    """Index of one object. Block n contains the entries from `first_entries[n]` up to, but not including,
    `first_entries[n + 1]`, in the bytes from `offsets[n]` up to, but not including, `offsets[n + 1]`; `crcs[n]` is the
    CRC32C of these bytes. `ledger`: its record at the time of the upload; `part`: the number of the object;
    `digest_bytes`: length of each entry's digest."""

    ledger: LedgerRecord
    part: int
    digest_bytes: int
    first_entries: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    crcs: list[int] = field(default_factory=list)
    compressed: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.crcs)

    def block_of(self, entry_id: int) -> int:
        """Returns the number of the block with this entry."""
        return bisect_right(self.first_entries, entry_id) - 1

    def encode(self) -> bytes:
        message = pb.ColdIndex(
            format_version=FORMAT_VERSION,
            ledger_id=self.ledger.ledger_id,
            ledger=ledger_codec.to_message(self.ledger),
            part=self.part,
            digest_bytes=self.digest_bytes,
            first_entries=self.first_entries,
            offsets=self.offsets,
            crcs=self.crcs,
            compressed=self.compressed,
        )
        return message.SerializeToString(deterministic=True)


def decode(value: bytes) -> ColdIndex:
    """Decodes an index. Raises ValueError if the value is not an index, or was written by a newer program."""
    try:
        message = pb.ColdIndex.FromString(value)
        if message.format_version != FORMAT_VERSION:
            raise ValueError(
                f"format version {message.format_version}; this program supports {FORMAT_VERSION}"
            )
        ledger = ledger_codec.from_message(message.ledger_id, message.ledger)
    except (DecodeError, KeyError) as error:
        raise ValueError(str(error)) from error
    found = ColdIndex(
        ledger,
        message.part,
        message.digest_bytes,
        list(message.first_entries),
        list(message.offsets),
        list(message.crcs),
        list(message.compressed),
    )
    lengths = {len(found.first_entries), len(found.offsets), len(found.compressed) + 1}
    if not found.crcs or lengths != {len(found) + 1}:
        raise ValueError("its columns have different lengths")
    return found
