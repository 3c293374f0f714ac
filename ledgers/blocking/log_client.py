"""The blocking client's calls for logs, beside those for ledgers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from metadata.records.ledger_record import DigestType
from metadata.records.logs.log_record import ROLL_BYTES, ROLL_RECORDS, ROLL_SECONDS, LogRecord
from metadata.records.logs.log_set_record import LogSetRecord
from metadata.records.logs.retention import NOTHING_GOES, Retention

from .. import aio
from ..loop_thread import in_pages, iterate
from .base_client import BlockingClient
from .log import Log
from .sets.log_set import LogSet

LOGS_PER_HOP = 256
"""Logs fetched from the loop's thread at a time when listing them."""


class BlockingLogClient(BlockingClient[aio.LedgerClient]):
    """What the blocking `LedgerClient` does with logs."""

    def create_log(
        self,
        name: str,
        *,
        ensemble_size: int = 3,
        write_quorum: int | None = None,
        ack_quorum: int | None = None,
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        roll_bytes: int = ROLL_BYTES,
        roll_records: int = ROLL_RECORDS,
        roll_seconds: float = ROLL_SECONDS,
        retention: Retention = NOTHING_GOES,
    ) -> Log:
        """Creates a log; see `ledgers.logs.log_client.LogClient.create_log`."""
        created = self._twin.create_log(
            name,
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            digest=digest,
            password=password,
            roll_bytes=roll_bytes,
            roll_records=roll_records,
            roll_seconds=roll_seconds,
            retention=retention,
        )
        return Log(self._thread, self._thread.run(created))

    def log(self, name: str, *, create: bool = False, password: bytes = b"") -> Log:
        """Opens a log; with `create` it is created on first use."""
        return Log(self._thread, self._thread.run(self._twin.log(name, create=create, password=password)))

    def log_set(
        self,
        name: str,
        logs: int | None = None,
        *,
        ensemble_size: int = 3,
        write_quorum: int | None = None,
        ack_quorum: int | None = None,
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        roll_bytes: int = ROLL_BYTES,
        roll_records: int = ROLL_RECORDS,
        roll_seconds: float = ROLL_SECONDS,
        retention: Retention = NOTHING_GOES,
    ) -> LogSet:
        """Opens a set of logs; with a number of logs it is created on first use.

        See `ledgers.logs.log_client.LogClient.log_set`.
        """
        opened = self._twin.log_set(
            name,
            logs,
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            digest=digest,
            password=password,
            roll_bytes=roll_bytes,
            roll_records=roll_records,
            roll_seconds=roll_seconds,
            retention=retention,
        )
        return LogSet(self._thread, self._thread.run(opened))

    def list_log_sets(self) -> Iterator[tuple[str, LogSetRecord]]:
        """Yields the name and the metadata of every set of logs, in the order of names."""
        return chain.from_iterable(iterate(self._thread, in_pages(self._twin.list_log_sets(), LOGS_PER_HOP)))

    def delete_log_set(self, name: str, *, password: bytes = b"") -> None:
        """Deletes a set for good; see `ledgers.logs.log_client.LogClient.delete_log_set`."""
        self._thread.run(self._twin.delete_log_set(name, password=password))

    def list_logs(self) -> Iterator[tuple[str, LogRecord]]:
        """Yields the name and the metadata of every log, in the order of names."""
        return chain.from_iterable(iterate(self._thread, in_pages(self._twin.list_logs(), LOGS_PER_HOP)))

    def rename_log(self, name: str, new_name: str) -> None:
        """Gives a log another name. Writers and readers go on."""
        self._thread.run(self._twin.rename_log(name, new_name))

    def delete_log(self, name: str, *, password: bytes = b"") -> None:
        """Deletes a log for good; see `ledgers.logs.log_client.LogClient.delete_log`."""
        self._thread.run(self._twin.delete_log(name, password=password))
