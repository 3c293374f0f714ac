"""Columnar batches of entries: ids, lengths, digests and one payload. Entries keep this form from client to disk and
back.

    entry_ids  i64 little-endian each, strictly ascending
    lengths    u32 little-endian each
    digests    count × width bytes; the width depends on the ledger's digest type
    payload    the entries' bytes, one after the other

The first three are plain `bytes`. The payload may be a slice of a buffer that was received or read, and keeps that
buffer alive. Batches are split and joined by C code, whole columns at a time.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

if sys.byteorder != "little":
    raise ImportError(
        "bookledger requires a little-endian machine, because its columns in memory are little-endian"
    )

ID_BYTES = 8
LENGTH_BYTES = 4

ENTRY_BYTES_MAX = 4 * 1024 * 1024
"""Maximum size of an entry; the client refuses a larger one before it sends anything."""

FRAME_BYTES_MAX = 1024 * 1024
"""Maximum size of a frame's columns; a larger entry is sent in a frame that contains nothing else."""

FRAME_ENTRIES_MAX = 16 * 1024
"""Maximum number of entries per frame; also limits how many ids a frame can span in a striped ledger."""


Payload = bytes | memoryview
"""The entries' bytes; treated as read-only, even if they are a memoryview."""


class BadColumns(ValueError):
    """The columns are inconsistent; none of them can be used."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A batch of entries in ascending id order. Immutable; slicing and joining create new batches."""

    entry_ids: bytes
    lengths: bytes
    digests: bytes
    payload: Payload

    def __len__(self) -> int:
        return len(self.entry_ids) // ID_BYTES

    @property
    def ids(self) -> Sequence[int]:
        """The ids, without copying them."""
        return memoryview(self.entry_ids).cast("q")

    @property
    def sizes(self) -> Sequence[int]:
        """The entries' lengths in bytes, without copying them."""
        return memoryview(self.lengths).cast("I")

    @property
    def offsets(self) -> Sequence[int]:
        """Start of each entry in the payload, followed by the end of the last one."""
        return array("q", list(accumulate(self.sizes, initial=0)))

    @property
    def first_entry(self) -> int:
        return int(_ID.unpack_from(self.entry_ids, 0)[0])

    @property
    def last_entry(self) -> int:
        return int(_ID.unpack_from(self.entry_ids, len(self.entry_ids) - ID_BYTES)[0])

    @property
    def size_bytes(self) -> int:
        """Total size in bytes of all four columns: the size of the entries in a message, in memory and on disk."""
        return len(self.entry_ids) + len(self.lengths) + len(self.digests) + len(self.payload)

    @property
    def digest_width(self) -> int:
        return len(self.digests) // len(self) if len(self) else 0

    def check(self) -> None:
        """Raises BadColumns unless the four columns are consistent. Called once, when the bytes arrive from outside."""
        if len(self.entry_ids) == ID_BYTES and len(self.lengths) == LENGTH_BYTES:  # a single entry
            (first,), (size,) = _ID.unpack(self.entry_ids), _LENGTH.unpack(self.lengths)
            if first >= 0 and size == len(self.payload):
                return
        count, partial = divmod(len(self.entry_ids), ID_BYTES)
        if partial or len(self.lengths) != count * LENGTH_BYTES:
            raise BadColumns(f"{len(self.entry_ids)} bytes of ids with {len(self.lengths)} bytes of lengths")
        if (len(self.digests) % count if count else len(self.digests)) != 0:
            raise BadColumns(f"{len(self.digests)} bytes of digests for {count} entries")
        if (size := self._lengths_sum(count)) != len(self.payload):
            raise BadColumns(f"lengths add up to {size}, but the payload has {len(self.payload)} bytes")
        if count and not self._are_ascending(count):
            raise BadColumns("entry ids are negative or not strictly ascending")

    def _lengths_sum(self, count: int) -> int:
        """Returns the sum of all lengths; computed at C speed in the usual case of entries of equal length."""
        if count and self.lengths == self.lengths[:LENGTH_BYTES] * count:
            return count * self.sizes[0]
        return sum(self.sizes)

    def _are_ascending(self, count: int) -> bool:
        """Returns whether the ids are at least 0 and strictly ascending; checked at C speed in the usual case of a run
        without gaps."""
        first, last = self.first_entry, self.last_entry
        if first < 0 or count == 1:
            return first >= 0
        if last - first == count - 1 and self.entry_ids == consecutive(first, count):
            return True
        return all(a < b for a, b in pairwise(self.ids))

    def cut(self, start: int, stop: int) -> Columns:
        """Returns the entries at indexes start…stop−1."""
        if start == 0 and stop == len(self):
            return self
        sizes, width = self.sizes, self.digest_width
        begin = sum(sizes[:start])
        end = begin + sum(sizes[start:stop])
        return Columns(
            self.entry_ids[start * ID_BYTES : stop * ID_BYTES],
            self.lengths[start * LENGTH_BYTES : stop * LENGTH_BYTES],
            self.digests[start * width : stop * width],
            self.payload[begin:end],
        )

    def between(self, first_entry: int, last_entry: int) -> Columns:
        """Returns the entries with first_entry ≤ id ≤ last_entry."""
        ids = self.ids
        start = bisect_left(ids, first_entry)
        return self.cut(start, bisect_left(ids, last_entry + 1, start))

    def run_from(self, first_entry: int) -> Columns:
        """Returns the entries from `first_entry` up to the first gap; none if the batch does not begin with
        `first_entry`."""
        if not len(self) or self.first_entry != first_entry:
            return NO_ENTRIES
        if self.last_entry - first_entry == len(self) - 1:
            return self
        return self.cut(0, next(n for n, entry_id in enumerate(self.ids) if entry_id != first_entry + n))

    def start_of(self, bytes_max: int) -> Columns:
        """Returns as many of the first entries as fit in `bytes_max` in total; at least one, if there are any."""
        fixed = ID_BYTES + LENGTH_BYTES + self.digest_width
        ends = [end + fixed * count for count, end in enumerate(accumulate(self.sizes), 1)]
        return self.cut(0, max(bisect_right(ends, bytes_max), min(1, len(self))))

    def where(self, wanted: Callable[[int], bool]) -> Columns:
        """Returns the entries whose ids `wanted` accepts. Calls `wanted` for each entry, so only clients of striped
        ledgers use this method."""
        chosen = [index for index, entry_id in enumerate(self.ids) if wanted(entry_id)]
        return self if len(chosen) == len(self) else self.pick(chosen)

    def pick(self, indexes: Sequence[int]) -> Columns:
        """Returns the entries at these indexes, in the given order."""
        ids, sizes, width = self.ids, self.sizes, self.digest_width
        ends = list(accumulate(sizes))
        payload = memoryview(self.payload)
        return Columns(
            array("q", [ids[i] for i in indexes]).tobytes(),
            array("I", [sizes[i] for i in indexes]).tobytes(),
            b"".join([self.digests[i * width : (i + 1) * width] for i in indexes]),
            b"".join([payload[ends[i] - sizes[i] : ends[i]] for i in indexes]),
        )

    def rows(self) -> Iterator[tuple[int, memoryview, memoryview]]:
        """Yields (entry id, payload, digest) for each entry, without copying a payload."""
        payload, digests, width = memoryview(self.payload), memoryview(self.digests), self.digest_width
        begin = 0
        for index, (entry_id, end) in enumerate(zip(self.ids, accumulate(self.sizes), strict=True)):
            yield entry_id, payload[begin:end], digests[index * width : (index + 1) * width]
            begin = end


_ID = struct.Struct("<q")
_LENGTH = struct.Struct("<I")

NO_ENTRIES = Columns(b"", b"", b"", b"")


def of_payloads(first_entry: int, payloads: Sequence[bytes], digests: bytes, head: bytes = b"") -> Columns:
    """Makes consecutive entries from `first_entry` on; `digests` contains their digests in order. Each entry begins
    with `head`."""
    if len(payloads) == 1 and not head:
        payload = payloads[0]
        return Columns(_ID.pack(first_entry), _LENGTH.pack(len(payload)), digests, payload)
    return Columns(
        consecutive(first_entry, len(payloads)),
        array("I", _lengths(payloads, len(head))).tobytes(),
        digests,
        _joined(payloads, head),
    )


def consecutive(first_entry: int, count: int) -> bytes:
    """Returns a column of consecutive ids. For a range, `struct` is four times as fast as `array`."""
    return struct.pack(f"<{count}q", *range(first_entry, first_entry + count))


def _lengths(payloads: Sequence[bytes], head_bytes: int) -> list[int]:
    """Returns the entries' lengths as a list, because filling an `array` from an iterator takes four times as long."""
    return [head_bytes + len(payload) for payload in payloads] if head_bytes else list(map(len, payloads))


def _joined(payloads: Sequence[bytes], head: bytes) -> bytes:
    """Joins heads and payloads in a single copy: prepending the head to each payload first would cost another copy."""
    return head.join((b"", *payloads)) if head else b"".join(payloads)


def join(parts: Sequence[Columns]) -> Columns:
    """Returns the entries of `parts`, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    return Columns(
        b"".join([p.entry_ids for p in parts]),
        b"".join([p.lengths for p in parts]),
        b"".join([p.digests for p in parts]),
        b"".join([p.payload for p in parts]),
    )


def merge(parts: Iterable[Columns]) -> Columns:
    """Returns all entries of `parts` in ascending id order, each once; the parts may overlap and be in any order."""
    found = sorted((part for part in parts if len(part)), key=lambda part: part.first_entry)
    if not found:
        return NO_ENTRIES
    if all(a.last_entry < b.first_entry for a, b in zip(found, found[1:], strict=False)):
        return join(found)
    return _interleave(found)


def _interleave(parts: Sequence[Columns]) -> Columns:
    everything = join(parts)
    index_of = {entry_id: index for index, entry_id in enumerate(everything.ids)}
    return everything.pick([index_of[entry_id] for entry_id in sorted(index_of)])
