"""A directory that a Spark job writes: new at the start, and gone again where the job wrote nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import click

from ledgers.errors import LedgerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPLETE = "_SUCCESS"
UNCOMMITTED = "_temporary"
"""Where Spark's tasks write; what is committed is beside it."""


class NewOutput:
    """`--output`. It must not exist on any file system. Tidying up after a failure is for a local one.

    On others (s3a, hdfs) Spark's own abort removes what tasks wrote, if it lives to do so, and leaves an empty
    directory where the file system has these.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._is_ours = False
        self._local: Path | None = None

    def claim(self, session: SparkSession) -> None:
        """Raises LedgerError where there is something, and what Spark says of a file system it does not know."""
        context = session.sparkContext
        jvm = context._jvm
        assert jvm is not None
        path = jvm.org.apache.hadoop.fs.Path(self._where)
        files = path.getFileSystem(context._jsc.hadoopConfiguration())
        if files.exists(path):
            raise LedgerError(f"{self._where} already exists: choose another --output, or remove it")
        place = urlsplit(str(files.makeQualified(path).toUri().toString()))
        self._local = Path(unquote(place.path)) if place.scheme == "file" else None
        self._is_ours = True

    @contextmanager
    def tidied_up(self) -> Iterator[None]:
        """Leaves nothing behind of a job that ends before it has committed anything; else says what is left."""
        try:
            yield
        except Exception as error:
            if left := self._left():
                raise LedgerError(f"{error}; {left}") from error
            raise
        except BaseException:  # a signal: whoever sent it learns how it ended
            click.echo(
                f"bookledger: stopped; {self._left() or f'nothing is left in {self._where}'}", err=True
            )
            raise

    def _left(self) -> str:
        """What stays there, after this has removed what it may."""
        again = "remove it before you try again"
        if not self._is_ours:
            return ""
        if self._local is None:
            return f"{self._where} is unfinished unless it has a {COMPLETE}: {again}"
        if self._local.is_dir() and not _has_committed(self._local):
            shutil.rmtree(self._local, ignore_errors=True)  # if it stays, that is said
        if not self._local.exists():
            return ""
        if (self._local / COMPLETE).exists():
            return f"{self._where} is complete"
        return f"{self._where} is unfinished, it has no {COMPLETE}: {again}"


def _has_committed(directory: Path) -> bool:
    return any(name != UNCOMMITTED for name in os.listdir(directory))
