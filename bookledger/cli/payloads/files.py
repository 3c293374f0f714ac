"""Writes payloads to a directory, one file for each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bookie.disk.disk import sync_directory
from ledgers import Entry, LedgerError, Record
from metadata.keys import LEDGER_ID_MAX

from ..messages.interruption import again

DIGITS = len(str(LEDGER_ID_MAX))
"""Digits of a file's name, so that names sort like ids."""

UNFINISHED = ".unfinished"
"""The file being written; it gets its final name when it is on disk."""


class PayloadFiles:
    """Files named by entry id or position. Each appears only when it is complete and on disk; none is ever replaced.

    A file that already has its payload is kept, so the same command continues after an interruption.
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
        """Describes the files after an interrupt, and how to continue."""
        return f"{self._directory} has some of the {many}, each of them whole; {again()}"
