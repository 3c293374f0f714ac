"""The copy of a closed ledger in an object store, as recorded in the ledger's record (rule O1)."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

SCHEMES = ("s3", "gs", "az", "file")
"""The allowed schemes. Others are refused, so that a writer of records cannot make clients call arbitrary servers."""

_URL = re.compile(rf"({'|'.join(SCHEMES)})://\S*[^\s/]\S*")
_KEY = re.compile(r"[0-9a-f]{16}-[0-9a-f]{32}")

PARTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ColdCopy:
    """A copy of a ledger. `url` identifies the store, without credentials. `key` is random: no two uploads share an
    object. The object of part n is `key/n`; `part_starts` contains the first entry of each part, and is empty during
    the upload. `size_bytes`: the total size of all objects. `at_ms`: when the copy was verified, or its upload began,
    by the clock of the process that did it."""

    url: str
    key: str
    part_starts: tuple[int, ...] = ()
    size_bytes: int = 0
    at_ms: int = 0

    def __post_init__(self) -> None:
        check_url(self.url)
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"{self.key!r} is not a valid key for a copy in an object store")
        starts = self.part_starts
        if list(starts) != sorted(set(starts)) or len(starts) > PARTS_MAX or starts[:1] not in ((), (0,)):
            raise ValueError(
                f"a copy's first part must begin at entry 0, and each later part at a higher entry: {list(starts[:5])}"
            )

    @property
    def is_stored(self) -> bool:
        """Whether the copy is complete and has been read back."""
        return bool(self.part_starts)

    def part_of(self, entry_id: int) -> int:
        """Returns the number of the part that has this entry."""
        return bisect_right(self.part_starts, entry_id) - 1

    def name_of(self, part: int) -> str:
        """Returns the name of a part's object within the store."""
        return f"{self.key}/{part}"


def new_key(ledger_id: int, random: bytes) -> str:
    """Returns a copy's key. `random`: 16 bytes."""
    return f"{ledger_id:016x}-{random.hex()}"


def check_url(url: str) -> str:
    """Returns the URL of an object store. Raises ValueError if the URL does not identify one, or may contain
    credentials."""
    if any(sign in url for sign in "@?#"):
        scheme = url.partition(":")[0][:10]
        raise ValueError(
            f"the URL of an object store must not contain credentials or options ({scheme}://…): they come from the "
            "environment or from a file"
        )
    if not _URL.fullmatch(url):
        known = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///DIRECTORY"
        raise ValueError(f"{url!r} is not the URL of an object store: use {known}")
    return url
