"""Learns for each prefix, from earlier pages, how many keys of a listing to request from etcd at once.

A page's bytes are bounded by the sizes of values. Also, etcd counts all keys of a range, even those behind the page's
last one, so pages of one range would cost it the square of the number of keys. So keys that end in a number, as those
of ledgers do, are requested up to a number behind which the page most likely ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from . import etcd_pb2 as pb

PAGE_BYTES = 512 * 1024
"""Size of a page if its values are as large as those of the page before."""

BYTES_EACH = 8 * 1024
"""Assumed bytes per key of a prefix before its first page, so that this page is small."""

PREFIXES_MAX = 1000
"""A store that lists more prefixes forgets the sizes that it has learnt, and learns them again."""

IDS_EACH = 2.0
WIDENED = 8.0
"""Factor by which the next range is wider if a range held less than a page."""

_NUMBERED = re.compile(rb"(.*/)([0-7][0-9a-f]{15})", re.DOTALL)
_NUMBER_MAX = 2**63 - 1


@dataclass(slots=True)
class Paging:
    """The known statistics of one prefix: how large its values are, and how far apart its numbers are."""

    bytes_each: float = BYTES_EACH
    ids_each: float = IDS_EACH

    def limit(self, most: int) -> int:
        """Number of keys to request for one page, at most `most`."""
        return max(1, min(most, int(PAGE_BYTES / self.bytes_each)))

    def end(self, after: bytes, limit: int) -> bytes | None:
        """The last key of the range that most likely holds a page behind this key; None for all keys behind it."""
        numbered = _NUMBERED.fullmatch(after)
        if numbered is None:
            return None
        last = int(numbered[2], 16) + int(limit * self.ids_each)
        return None if last >= _NUMBER_MAX else b"%s%016x" % (numbered[1], last)

    def learn(self, kvs: Sequence[pb.KeyValue], limit: int) -> None:
        """Learns from a page, the result of a request for `limit` keys."""
        if kvs:
            self.bytes_each = max(1.0, sum(len(kv.key) + len(kv.value) for kv in kvs) / len(kvs))
        first, last = (_NUMBERED.fullmatch(kv.key) for kv in (kvs[0], kvs[-1])) if kvs else (None, None)
        if len(kvs) < limit:
            self.ids_each = min(self.ids_each * WIDENED, float(_NUMBER_MAX))
        elif first is not None and last is not None and first[1] == last[1]:
            self.ids_each = max(IDS_EACH, IDS_EACH * (int(last[2], 16) - int(first[2], 16)) / len(kvs))
