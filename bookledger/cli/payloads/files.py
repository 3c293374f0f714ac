"""Writes payloads into a directory, a file for each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bookie.disk.disk import sync_directory
from ledgers import Entry, LedgerError, Record
from metadata.keys import LEDGER_ID_MAX

from ..messages.interruption import again

DIGITS = len(str(LEDGER_ID_MAX))
"""Of a file's name, so that names sort as ids do."""

UNFINISHED = ".unfinished"
"""The file being written; it gets its name when it is on disk."""


class PayloadFiles:
    """Files named by entry id or position. Each is there only when it is whole and on disk; none is ever replaced.

    A file that has its payload already is left: so the same command goes on where it was interrupted.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._unfinished = directory / UNFINISHED

    def write(self, items: Iterable[Entry | Record]) -> None:
        """Returns when all names are on disk, too. Raises LedgerError."""
        for number, payload, *_ in items:
            file = self._directory / f"{number:0{DIGITS}}"
            try:
                self._write(file, payload)
            except OSError as error:
                raise LedgerError(f"{file} cannot be written: {error.strerror}") from error
        sync_directory(self._directory)

    def _write(self, file: Path, payload: bytes) -> None:
        try:
            with self._unfinished.open("wb") as out:
                out.write(payload)
                out.flush()
                os.fdatasync(out.fileno())
            os.link(self._unfinished, file)
        except FileExistsError as error:
            if not file.is_file() or file.read_bytes() != payload:
                raise LedgerError(
                    f"{file} has other content; give another directory, so that nothing is lost"
                ) from error
        finally:
            self._unfinished.unlink(missing_ok=True)

    def how(self, many: str) -> str:
        """What is there after an interrupt, and how to go on."""
        return f"{self._directory} has some of the {many}, each of them whole; {again()}"
