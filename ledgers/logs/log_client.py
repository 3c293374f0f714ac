"""The log methods of a client."""

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
    """The log methods of `LedgerClient`."""

    @abstractmethod
    async def _log_calls(self) -> LogCalls:
        """Returns the client's log operations, after connecting the client if necessary."""

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
        """Creates a log and returns it. Its segments are ledgers with the given shape, digest and password.

        The default write quorum is the ensemble size; the default ack quorum is a majority of the write quorum. With a
        `password`, bookies and clients accept writes and recoveries only from clients that know it;
        DigestType.HMAC_SHA256 also signs every entry with it. When a segment reaches `roll_bytes` or `roll_records`, or
        is `roll_seconds` old, it is ended and the ledger of the next one is created; appends do not wait for that.
        `retention` sets the rules by which old records are deleted automatically; by default, none are.

        Raises LogExists, NotAllowed if the client's role may not write, ValueError for an unusable name or impossible
        settings, MetadataUnavailable.
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
        """Opens a log. With `create`, a missing log is created with the default settings of `create_log`.

        Raises NoSuchLog, NotAllowed for a log of another owner, MetadataUnavailable; with `create` also the errors of
        `create_log`.
        """
        calls = await self._log_calls()
        try:
            return await calls.open(name, password)
        except NoSuchLog:
            if not create:
                raise
        try:
            return await self.create_log(name, password=password)
        except LogExists:  # another client has created the log in the meantime
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
        """Opens a set of logs. If the set does not exist and a number of `logs` is given, creates the set, with logs as
        `create_log` makes them.

        An existing set keeps its logs and settings, whatever the arguments are. Raises NoSuchLogSet, NotAllowed,
        ValueError for an unusable name or impossible settings, LogExists if a log outside the set has the name of one
        of its logs (in that case nothing is created), LedgerError for a set that is partly deleted,
        MetadataUnavailable.
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
        """Yields the name and the metadata of every set of logs, ordered by name. Raises MetadataUnavailable."""
        cluster = (await self._log_calls()).cluster
        with metadata_errors():
            async for found in LogSetStore(cluster.store).list():
                yield found

    async def delete_log_set(self, name: str, *, password: bytes = b"") -> None:
        """Deletes a set permanently, with all its logs and their cursors. Fences its writer; its consumers get
        NoSuchLogSet. Safe to repeat after an interruption.

        Raises NoSuchLogSet, LogHeld if the set is under a legal hold, and the errors of `delete_log`.
        """
        calls = await self._log_calls()
        await delete_set(calls.cluster, calls, name, password)

    async def list_logs(self) -> AsyncIterator[tuple[str, LogRecord]]:
        """Yields the name and the metadata of every log that the client may use, ordered by name.

        Raises MetadataUnavailable.
        """
        async for found in (await self._log_calls()).list():
            yield found

    async def rename_log(self, name: str, new_name: str) -> None:
        """Renames a log. Its writers and readers continue.

        Raises NoSuchLog, LogExists, LogOfSet, NotAllowed, ValueError for an unusable name, MetadataUnavailable.
        """
        await (await self._log_calls()).rename(name, new_name)

    async def delete_log(self, name: str, *, password: bytes = b"") -> None:
        """Deletes a log permanently, with all its ledgers. Fences its writer. Safe to repeat after an interruption.

        Raises NoSuchLog, LogHeld, LogOfSet, Unauthorized, NotAllowed, LedgerRecoveryFailed, MetadataUnavailable.
        """
        await (await self._log_calls()).delete(name, password)
