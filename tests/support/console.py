"""`bookledger console` in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bookledger.cli.processes import BOOKLEDGER, Child


@contextmanager
def console(path: Path, uri: str, *options: str, port: int = 0) -> Iterator[str]:
    """`bookledger console`; its URL."""
    command = (*BOOKLEDGER, "console", f"--metadata={uri}", f"--http=127.0.0.1:{port}", "--json", *options)
    child = Child(command, name="console", log=path / "console.log")
    try:
        yield child.hear()["http"]
    finally:
        assert child.stop() == 0
