"""How much one page of a listing asks etcd for: learnt, for each prefix, from the pages before it.

A page's bytes are bounded by what values weigh. And etcd counts all keys of a range, also those behind the page's last
one: pages of one range would cost it the square of the keys. So keys that end in a number, as those of ledgers, are
asked for up to a number behind which the page most likely ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from . import etcd_pb2 as pb

PAGE_BYTES = 512 * 1024
"""What a page comes to whose values weigh what those of the page before did."""

BYTES_EACH = 8 * 1024
"""Bytes that a key of a prefix is taken to have of which nothing is known: its first page is small."""

PREFIXES_MAX = 1000
"""Of more prefixes a store forgets what it has learnt, and learns it again."""

IDS_EACH = 2.0
WIDENED = 8.0
"""A range that held less than a page is followed by one that is so many times as wide."""

_NUMBERED = re.compile(rb"(.*/)([0-7][0-9a-f]{15})", re.DOTALL)
_NUMBER_MAX = 2**63 - 1


@dataclass(slots=True)
class Paging:
    """The keys of one prefix, as far as they are known: how large values are, and how far numbers are apart."""

    bytes_each: float = BYTES_EACH
    ids_each: float = IDS_EACH

    def limit(self, most: int) -> int:
        """So many keys are one page."""
        return max(1, min(most, int(PAGE_BYTES / self.bytes_each)))

    def end(self, after: bytes, limit: int) -> bytes | None:
        """The last key of the range that most likely holds a page behind this key; None for all keys behind it."""
        numbered = _NUMBERED.fullmatch(after)
        if numbered is None:
            return None
        last = int(numbered[2], 16) + int(limit * self.ids_each)
        return None if last >= _NUMBER_MAX else b"%s%016x" % (numbered[1], last)

    def learn(self, kvs: Sequence[pb.KeyValue], limit: int) -> None:
        """From a page of a range that was asked for so many keys."""
        if kvs:
            self.bytes_each = max(1.0, sum(len(kv.key) + len(kv.value) for kv in kvs) / len(kvs))
        first, last = (_NUMBERED.fullmatch(kv.key) for kv in (kvs[0], kvs[-1])) if kvs else (None, None)
        if len(kvs) < limit:
            self.ids_each = min(self.ids_each * WIDENED, float(_NUMBER_MAX))
        elif first is not None and last is not None and first[1] == last[1]:
            self.ids_each = max(IDS_EACH, IDS_EACH * (int(last[2], 16) - int(first[2], 16)) / len(kvs))
