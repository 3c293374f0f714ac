"""The output directory of a Spark job: new at the start, complete at the end, removed if the job fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ledgers.errors import LedgerError

from ..messages.interruption import again
from ..temporary_directories import directory_beside
from ..terminal import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPLETE = "_SUCCESS"
PARTIAL = "partial"


class NewOutput:
    """The `--output` directory, which must not exist yet; it may be on any file system.

    On a local file system the job writes to a temporary directory next to it, which gets the final name when everything
    is written: two commands with the same output never touch each other's files, and an existing output is complete.
    Leftovers of killed commands with this output are removed. On other file systems (s3a, hdfs) the job writes to the
    output itself, and Spark's own abort removes the files of its tasks, if Spark is still alive to do so.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._is_claimed = False
        self._local: Path | None = None
        self._staging: Path | None = None
        self._removing = ExitStack()

    def claim(self, session: SparkSession) -> str:
        """Returns the path that the job must write to. Raises LedgerError if the output already exists, or cannot be
        created.

        Raises Spark's error for an unknown file system.
        """
        context = session.sparkContext
        jvm = context._jvm
        assert jvm is not None
        path = jvm.org.apache.hadoop.fs.Path(self._where)
        files = path.getFileSystem(context._jsc.hadoopConfiguration())
        if files.exists(path):
            raise LedgerError(f"{self._where} already exists: choose another --output, or remove it")
        place = urlsplit(str(files.makeQualified(path).toUri().toString()))
        self._is_claimed = True
        if place.scheme != "file":
            return self._where
        self._local = Path(unquote(place.path))
        return f"file://{self._stage(self._local)}/out"

    def complete(self) -> None:
        """Gives the written directory its final name. Raises LedgerError if another process has created a file or
        directory with that name in the meantime."""
        if self._local is None or self._staging is None:
            return
        try:
            os.rename(self._staging / "out", self._local)
        except OSError as error:
            raise LedgerError(
                f"{self._where} was created by another process in the meantime ({error.strerror}): "
                "choose another --output"
            ) from error

    @contextmanager
    def tidied_up(self) -> Iterator[None]:
        """Cleans up after a failed job, and reports leftovers that could not be removed."""
        try:
            yield
        except Exception as error:
            if left := self._left():
                raise LedgerError(f"{error}; {left}") from error
            raise
        except BaseException:  # stopped by a signal: report what is left
            left = self._left() or f"nothing is left in {self._where}"
            say(f"bookledger: stopped; {left}; {again(so='begin again')}", err=True)
            raise
        finally:
            self._removing.close()

    def _stage(self, local: Path) -> Path:
        try:
            local.parent.mkdir(parents=True, exist_ok=True)
            made = directory_beside(local.parent, f".{local.name}.{PARTIAL}-", "command", _print_notice)
            self._staging = self._removing.enter_context(made)
        except OSError as error:
            raise LedgerError(
                f"nothing can be written to {local.parent} ({error.strerror}): choose a writable place"
            ) from error
        return self._staging

    def _left(self) -> str:
        if not self._is_claimed or self._local is not None:
            return ""
        return f"{self._where} is unfinished unless it has a {COMPLETE}: remove it before you try again"


def _print_notice(text: str) -> None:
    say(f"bookledger: {text}", err=True)
