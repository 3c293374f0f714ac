"""The calls of a client for logs, beside those for ledgers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

from metadata.records.ledger_record import DigestType
from metadata.records.logs.log_record import ROLL_BYTES, ROLL_RECORDS, ROLL_SECONDS, LogRecord, LogSettings
from metadata.records.logs.log_set_record import LogSetRecord, LogSetStore
from metadata.records.logs.retention import NOTHING_GOES, Retention

from ..creating.new_ledger import NewLedger
from ..errors import LogExists, NoSuchLog
from ..record_change import metadata_errors
from .log import Log
from .log_calls import LogCalls
from .sets.deletion import delete_set
from .sets.log_set import LogSet


class LogClient(ABC):
    """What `LedgerClient` does with logs."""

    @abstractmethod
    async def _log_calls(self) -> LogCalls:
        """Connects where that was not done yet."""

    async def create_log(
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
        """Creates a log; its segments are ledgers of this shape, digest and password, as `NewLedger` describes them.

        A segment is ended when it has `roll_bytes` or `roll_records`, or is `roll_seconds` old, and the ledger of the
        next one is made; appends do not wait for that. `retention`: what goes by itself. Raises LogExists, NotAllowed,
        ValueError for an unusable name or impossible settings, MetadataUnavailable.
        """
        shape = NewLedger(
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            digest=digest,
            password=password,
        ).shape
        settings = LogSettings(shape, digest, roll_bytes, roll_records, roll_seconds)
        return await (await self._log_calls()).create(name, settings, password, retention)

    async def log(self, name: str, *, create: bool = False, password: bytes = b"") -> Log:
        """Opens a log; with `create` it is created on first use, as `create_log` does without settings.

        Raises NoSuchLog, NotAllowed for one of another owner, MetadataUnavailable; with `create` also as `create_log`.
        """
        calls = await self._log_calls()
        try:
            return await calls.open(name, password)
        except NoSuchLog:
            if not create:
                raise
        try:
            return await self.create_log(name, password=password)
        except LogExists:  # somebody else was faster
            return await calls.open(name, password)

    async def log_set(
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
        """Opens a set of logs; with a number of logs it is created on first use, with logs as `create_log` makes them.

        A set that is there has the logs and the settings that it has, whatever is given. Raises NoSuchLogSet,
        NotAllowed, ValueError for an unusable name or impossible settings, LogExists where another log has the name of
        one of its logs: then nothing is created; LedgerError for one that is deleted in part, MetadataUnavailable.
        """
        calls = await self._log_calls()
        shape = NewLedger(
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            digest=digest,
            password=password,
        ).shape
        settings = LogSettings(shape, digest, roll_bytes, roll_records, roll_seconds)
        return await LogSet.opened(calls.cluster, calls, name, logs, settings, password, retention)

    async def list_log_sets(self) -> AsyncIterator[tuple[str, LogSetRecord]]:
        """Yields the name and the metadata of every set of logs, in the order of names. Raises MetadataUnavailable."""
        cluster = (await self._log_calls()).cluster
        with metadata_errors():
            async for found in LogSetStore(cluster.store).list():
                yield found

    async def delete_log_set(self, name: str, *, password: bytes = b"") -> None:
        """Deletes a set for good, with all its logs and their cursors. Its writer is fenced, and its consumers get
        NoSuchLogSet. Safe to repeat after an interruption.

        Raises NoSuchLogSet; LogHeld where it is under a legal hold, and else as `delete_log`.
        """
        calls = await self._log_calls()
        await delete_set(calls.cluster, calls, name, password)

    async def list_logs(self) -> AsyncIterator[tuple[str, LogRecord]]:
        """Yields the name and the metadata of every log that the client may use, in the order of names.

        Raises MetadataUnavailable.
        """
        async for found in (await self._log_calls()).list():
            yield found

    async def rename_log(self, name: str, new_name: str) -> None:
        """Gives a log another name. Writers and readers go on.

        Raises NoSuchLog, LogExists, LogOfSet, NotAllowed, ValueError for an unusable name, MetadataUnavailable.
        """
        await (await self._log_calls()).rename(name, new_name)

    async def delete_log(self, name: str, *, password: bytes = b"") -> None:
        """Deletes a log for good, with all its ledgers. Its writer is fenced. Safe to repeat after an interruption.

        Raises NoSuchLog, LogHeld, LogOfSet, Unauthorized, NotAllowed, LedgerRecoveryFailed, MetadataUnavailable.
        """
        await (await self._log_calls()).delete(name, password)
