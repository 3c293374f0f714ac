"""A parser of bytes that others may have made, and what it may do with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Target:
    """`parse` takes any bytes: it returns, or raises one of `errors` with words in it; anything else is a bug.

    `seeds` are good inputs, of which a fuzzer makes others.
    """

    name: str
    parse: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    seeds: Callable[[], list[bytes]]

    def try_on(self, data: bytes) -> None:
        """Raises what a bug raises."""
        try:
            self.parse(data)
        except self.errors as error:
            if not str(error):
                raise AssertionError("an error without words") from error

    def corpus(self) -> list[bytes]:
        """What is committed for it: seeds, and what was found to matter."""
        return [path.read_bytes() for path in sorted((CORPUS / self.name).glob("*"))]
