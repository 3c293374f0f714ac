"""`LedgerClient` for asyncio: create, open, list, describe and delete ledgers."""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Self, Unpack

from bookie.wire.messages import InfoReply, MaintainReply, MaintainRequest
from bookie.wire.trust.roles import Right
from metadata.fork_safety.fork_guard import ForkGuard, NotPickled
from metadata.records import record_decoding
from metadata.records.cluster import list_bookies
from metadata.records.ledger_record import BookieRef, DigestType, LedgerRecord, LedgerState
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.registration import Registration
from metadata.store import MetadataStore
from metadata.store_factory import UriOrPath, open_store, uri_in

from .bookies.connected_bookies import ConnectedBookies
from .cluster import Cluster, counted
from .config import ClientConfig
from .creating.new_ledger import LedgerArguments, NewLedger
from .elections.election import Election, ElectionClient
from .elections.term import Term
from .errors import ClientClosed, ClientForked, LedgerClosed, LedgerError
from .integrity.encryption import cipher_of, encryption_key_of
from .ledger_access import Keys, found_of, keys_of
from .logs.cursors.cursor import Cursor
from .logs.log import Log
from .logs.log_calls import LogCalls
from .logs.log_client import LogClient
from .logs.segment_holder import check_is_in_no_log
from .logs.writing.log_writer import LogWriter
from .loop_batching import LoopBatching
from .offloading.offload_client import OffloadClient
from .reading.read_handle import ReadHandle
from .reading.size_steps import SizeStep, SizeSteps, measured_entries
from .record_change import Conflict, change_record, metadata_errors
from .recovering.ledger_deletion import delete
from .recovering.ledger_salvage import Salvage
from .recovering.loss_acceptance import LossAssessment, accept_loss, assess
from .recovering.recovery_run import recover
from .tasks import at_loop_end
from .writing.advanced_write_handle import AdvancedWriteHandle
from .writing.base_writer import close_writers
from .writing.creation import create_record
from .writing.write_handle import WriteHandle

__all__ = [
    "AdvancedWriteHandle",
    "Cursor",
    "Election",
    "LedgerClient",
    "Log",
    "LogWriter",
    "NewLedger",
    "ReadHandle",
    "Salvage",
    "Term",
    "WriteHandle",
]


class LedgerClient(NotPickled, LogClient, ElectionClient, OffloadClient):
    """A client of one cluster, for asyncio. Use it as `async with LedgerClient(uri) as client`.

    `metadata_uri` specifies the cluster's metadata store:

        etcd://HOST:PORT[,HOST:PORT...]/PREFIX    etcd, for example etcd://etcd1:2379,etcd2:2379,etcd3:2379/prod
        etcds://HOST:PORT[,HOST:PORT...]/PREFIX   the same with TLS
        sqlite:///ABSOLUTE/PATH.db                a file on one machine, such as sqlite:///var/lib/bookledger/metadata.db

    A `pathlib.Path` to an SQLite file is also accepted. If `metadata_uri` is omitted, the environment variable
    BOOKLEDGER_METADATA specifies the store. Raises BadMetadataUri if neither is given.

    A client belongs to the event loop on which it is first used. After `close`, the client and its handles are
    unusable. In a process forked later, every call on the client and its handles raises ClientForked.
    """

    def __init__(self, metadata_uri: UriOrPath | None = None, *, config: ClientConfig | None = None) -> None:
        self._uri = uri_in(metadata_uri)
        self._config = config or ClientConfig()
        self._store: MetadataStore | None = None
        self._cluster: Cluster | None = None
        self._bookies: ConnectedBookies | None = None
        self._encryption_key: bytes | None = None
        self._logs: LogCalls | None = None
        self._is_closed = False
        self._at_loop_end: AsyncGenerator[None, None] | None = None
        self._home = ForkGuard(ClientForked)
        self._connecting = asyncio.Lock()
        self._writers: weakref.WeakSet[WriteHandle] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"<LedgerClient of {self._uri}{', closed' if self._is_closed else ''}>"

    async def connect(self) -> None:
        """Connects to the metadata store; `async with` does this automatically. Raises BadMetadataUri for an unusable
        URI, LedgerError for unusable certificates, ClientClosed, ClientForked, or MetadataUnavailable."""
        self._home.check()
        async with self._connecting:
            if self._is_closed:
                raise ClientClosed
            if self._cluster is None:
                with self._asking():
                    self._store = counted(await open_store(self._uri), self._config)
                turn = LoopBatching()
                try:
                    self._encryption_key = encryption_key_of(self._config)
                    self._bookies = ConnectedBookies(self._store, self._config, turn)
                except LedgerError:
                    await self._store.close()
                    raise
                ledgers, rng, me = LedgerStore(self._store), random.Random(), self._bookies.identity
                self._cluster = Cluster(
                    self._store, ledgers, self._bookies, self._config, rng, identity=me, turn=turn
                )
                self._at_loop_end = at_loop_end(self._close)
                await anext(self._at_loop_end)

    async def close(self) -> None:
        """Closes all open writers, as their `close` methods do, and all connections. Safe to repeat; does nothing in a
        forked process.

        Writers that cannot be closed within `CLOSE_SECONDS_MAX` (5 s) are abandoned, with a warning in the log.
        """
        if self._home.is_here:
            ending, self._at_loop_end = self._at_loop_end, None
            await (self._close() if ending is None else ending.aclose())

    async def _close(self) -> None:
        self._is_closed = True
        if self._logs is not None:
            await self._logs.close()
        await close_writers(self._writers)
        if self._cluster is not None:
            self._cluster.is_closed = True
            await self._cluster.leave_queues()
            self._cluster.idle_lacs.stop()
            await self._cluster.bookies.close()
            self._cluster = None
        if self._store is not None:
            await self._store.close()
            self._store = None

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def create_ledger(
        self,
        *,
        ensemble_size: int = 3,
        write_quorum: int | None = None,
        ack_quorum: int | None = None,
        ledger_id: int | None = None,
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom_metadata: Mapping[str, bytes] | None = None,
        deferred_sync: bool = False,
    ) -> WriteHandle:
        """Creates a ledger and returns its writer; `NewLedger` describes the arguments.

        The default write quorum is the ensemble size; the default ack quorum is a majority of the write quorum. Raises
        ValueError for an impossible shape, NotAllowed if the client's role may not write, NotEnoughBookies,
        LedgerExists if the chosen id is taken, or MetadataUnavailable. After MetadataUnavailable, an empty open ledger
        may exist; after any other error, no ledger was created.
        """
        new = NewLedger(
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            ledger_id=ledger_id,
            digest=digest,
            password=password,
            custom_metadata=custom_metadata or {},
            deferred_sync=deferred_sync,
        )
        return await self._made(await self._connected(), new)

    async def create_ledger_adv(
        self, new: NewLedger | None = None, **arguments: Unpack[LedgerArguments]
    ) -> AdvancedWriteHandle:
        """Creates a ledger whose writer chooses the entry ids, in any order.

        Takes the arguments of `create_ledger`, or all of them as a NewLedger. Raises the errors of `create_ledger`.
        """
        wanted = NewLedger.of(new, arguments)
        cluster = await self._connected()
        return AdvancedWriteHandle(await self._made(cluster, wanted), self._config.pending_bytes_max)

    async def reserve_ledger(self, new: NewLedger | None = None, **arguments: Unpack[LedgerArguments]) -> int:
        """Creates a ledger without a writer, for another process to claim; returns its id.

        Takes the arguments of `create_ledger`, or all of them as a NewLedger. Raises the errors of `create_ledger`.
        """
        made = await self._make(await self._connected(), NewLedger.of(new, arguments), reserved=True)
        return made.record.ledger_id

    async def claim_ledger(self, ledger_id: int, *, password: bytes = b"") -> WriteHandle:
        """Claims a ledger created by `reserve_ledger`, and returns its only writer.

        Raises LedgerClosed if it was already claimed, recovered or closed, NoSuchLedger, Unauthorized,
        BadEncryptionKey, or MetadataUnavailable.
        """
        cluster = await self._connected()
        with self._asking():
            found = await found_of(cluster, ledger_id)
            if not found.record.reserved or found.record.state is not LedgerState.OPEN:
                raise LedgerClosed(
                    ledger_id, "it already has or had a writer, and a ledger never gets a second one"
                )
            # Check the password, the rights and the encryption key before claiming the ledger.
            keys = await keys_of(cluster, found, password, Right.APPEND)
            cipher_of(found.record, self._encryption_key)
            match await change_record(cluster.ledgers, found.record.claimed(), found.version):
                case VersionedRecord() as claimed:
                    return self._writer(cluster, claimed, keys)
                case Conflict():
                    raise LedgerClosed(ledger_id, "another writer has just claimed it")
                case error:
                    raise error

    async def open_ledger(
        self, ledger_id: int, *, recovery: bool = True, password: bytes = b""
    ) -> ReadHandle:
        """Opens a ledger for reading. With `recovery`, first fences, recovers and closes the ledger if it is open.

        Without `recovery` the writer is not disturbed, and the reader sees the entries that the bookies know to be
        confirmed. Raises NoSuchLedger, Unauthorized (in that case nothing is fenced or changed), LedgerRecoveryFailed,
        MetadataUnavailable, ClientClosed; without recovery also NotEnoughAnswers.
        """
        cluster = await self._connected()
        with self._asking():
            found = await found_of(cluster, ledger_id)
            rights = (Right.FENCE,) if recovery and not found.record.is_closed else ()
            checker, key = keys = await keys_of(cluster, found, password, *rights)
            if recovery:
                return self._reader(cluster, await recover(cluster, found, checker, key), keys)
            handle = self._reader(cluster, found, keys)
            if not handle.is_closed:
                await handle.read_last_add_confirmed()
            return handle

    async def assess_loss(self, ledger_id: int, *, password: bytes = b"") -> LossAssessment:
        """Reports what would be discarded if `accept_loss` closed the ledger at the end of its surviving entries.

        Intended for a ledger whose end cannot be proven. Changes nothing. Raises LedgerError if nothing has to be
        discarded, because the ledger can be recovered or a live bookie may still prove its end; LedgerClosed,
        NoSuchLedger, Unauthorized, MetadataUnavailable.
        """
        cluster = await self._connected()
        with self._asking():
            return await assess(cluster, ledger_id, password)

    async def accept_loss(self, assessment: LossAssessment, *, password: bytes = b"") -> LedgerRecord:
        """Closes a ledger at the end of its surviving entries, discards the entries that its missing bookies hold, and
        returns the closed record.

        Intended for an operator who has seen the assessment; the record states that the loss was accepted. Requires an
        admin's certificate if the cluster uses certificates. Raises the errors of `assess_loss`, and
        LedgerRecoveryFailed if more has been lost since the assessment.
        """
        cluster = await self._connected()
        with self._asking():
            return await accept_loss(cluster, assessment, password)

    async def salvage_ledger(
        self,
        ledger_id: int,
        *,
        password: bytes = b"",
        bookies: Collection[str] = (),
        past_the_end: bool = False,
    ) -> Salvage:
        """Opens a ledger for salvage, which reads its entries from any live bookie, or only from the given bookies; see
        `Salvage`.

        Neither fences nor changes the ledger. Intended for a ledger that has lost a quorum: the salvage also returns
        entries that are not proven to be confirmed and, with `past_the_end`, entries past the end of a closed ledger.
        Raises NoSuchLedger, Unauthorized, BadEncryptionKey, LedgerError if no live bookie has a given name,
        MetadataUnavailable.
        """
        cluster = await self._connected()
        with self._asking():
            found = await found_of(cluster, ledger_id)
            keys = await keys_of(cluster, found, password, Right.READ)
            salvage = Salvage(cluster, found, keys, self._encryption_key, past_the_end=past_the_end)
            await salvage.find_holders(bookies)
            return salvage

    async def list_ledgers(
        self,
        *,
        first_ledger: int = 0,
        skip_unreadable: bool = True,
        custom: Mapping[str, bytes] | None = None,
    ) -> AsyncIterator[LedgerRecord]:
        """Yields the metadata of every ledger from `first_ledger` on, ordered by id, which may differ from the order of
        creation.

        With `custom`, yields only ledgers whose custom metadata contains all of these pairs; every record is still
        read. With `skip_unreadable`, a record that cannot be decoded is skipped with a warning; otherwise it raises
        LedgerError. Raises MetadataUnavailable.
        """
        cluster = await self._connected()
        on_unreadable = record_decoding.skip if skip_unreadable else record_decoding.refuse
        with self._asking():
            async for found in cluster.ledgers.list(first_ledger, on_unreadable=on_unreadable):
                if custom is None or custom.items() <= found.record.custom_metadata.items():
                    yield found.record

    async def describe_ledger(self, ledger_id: int) -> LedgerRecord:
        """Returns one ledger's metadata. Raises NoSuchLedger, MetadataUnavailable."""
        with self._asking():
            return (await found_of(await self._connected(), ledger_id)).record

    async def size_steps(
        self, record: LedgerRecord, *, step_bytes: int, first_entry: int = 0, last_entry: int | None = None
    ) -> list[SizeStep]:
        """Estimates how the bytes of a closed ledger are distributed over its entries, so that it can be split into
        parts of equal size.

        Returns ascending pairs (entry, bytes before it), from (first_entry, 0) to the entry after `last_entry` (by
        default the ledger's last entry), about `step_bytes` apart if bookies report their holdings. Bytes that are not
        reported are assumed to be spread evenly, so a failed bookie does not make this call fail. Raises ValueError if
        the ledger is not closed, or if the range is not within the ledger.
        """
        first, last = measured_entries(record, first_entry, last_entry, step_bytes)
        cluster = await self._connected()
        assert self._bookies is not None
        return await SizeSteps(cluster, self._bookies.holdings, record, step_bytes).of(first, last)

    async def delete_ledger(
        self, ledger_id: int, *, password: bytes = b"", force: bool = False, password_is_lost: bool = False
    ) -> None:
        """Deletes a ledger permanently. An open ledger is recovered first, so that no writer can confirm anything
        afterwards.

        Raises NoSuchLedger, Unauthorized for a wrong password or certificate, or LedgerRecoveryFailed if the ledger
        cannot be closed; in these cases nothing is deleted. `force` deletes the ledger without recovery, for use when
        its bookies are lost: until the bookies collect garbage, appends of a live writer may still be confirmed,
        although their entries cannot be read. With `password_is_lost`, no password is needed and nothing is recovered;
        this requires an admin's certificate if the cluster uses certificates. Otherwise the ledger's owner may delete
        it, and so may a caller who knows its password. Raises LedgerInLog, LedgerError if the record keeps changing,
        MetadataUnavailable.
        """
        cluster = await self._connected()
        with self._asking():
            await check_is_in_no_log(cluster, (await found_of(cluster, ledger_id)).record)
            await delete(cluster, ledger_id, password, as_it_is=force, password_is_lost=password_is_lost)

    async def list_bookies(self) -> list[Registration]:
        """Lists every registered bookie. Raises MetadataUnavailable."""
        cluster = await self._connected()
        with self._asking():
            return await list_bookies(cluster.store)

    async def bookie_info(self, bookie: BookieRef) -> InfoReply:
        """Asks a bookie for its state. Raises BookieUnavailable."""
        return await (await self._connected()).bookies.info(bookie)

    async def maintain_bookie(
        self, bookie: BookieRef, request: MaintainRequest, timeout: float
    ) -> MaintainReply:
        """Asks a bookie to collect garbage, verify its disk or fetch lost entries, and waits for its report. Safe to
        repeat.

        A refusal or a failure is reported as a status in the reply. Raises BookieUnavailable if the bookie did not
        answer within `timeout` seconds; in that case the bookie has been asked to stop.
        """
        await self.connect()
        assert self._bookies is not None
        return await self._bookies.maintain(bookie, request, timeout)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """If the block raises an error and the client has been closed by then, raises ClientClosed instead."""
        try:
            with metadata_errors():
                yield
        except LedgerError as error:
            if self._is_closed:
                raise ClientClosed from error
            raise

    async def _connected(self) -> Cluster:
        await self.connect()
        assert self._cluster is not None
        return self._cluster

    async def _log_calls(self) -> LogCalls:
        cluster = await self._connected()
        self._logs = self._logs or LogCalls(cluster, self)
        return self._logs

    async def _made(self, cluster: Cluster, new: NewLedger) -> WriteHandle:
        created = await self._make(cluster, new, reserved=False)
        keys = await keys_of(cluster, created, new.password)
        return self._writer(cluster, created, keys, deferred_sync=new.deferred_sync)

    def _writer(
        self, cluster: Cluster, made: VersionedRecord, keys: Keys, *, deferred_sync: bool = False
    ) -> WriteHandle:
        cipher = cipher_of(made.record, self._encryption_key)
        writer = WriteHandle(cluster, made, *keys, cipher=cipher, deferred_sync=deferred_sync)
        self._writers.add(writer)
        return writer

    async def _make(self, cluster: Cluster, new: NewLedger, *, reserved: bool) -> VersionedRecord:
        with self._asking():
            return await create_record(cluster, new, reserved=reserved, encryption_key=self._encryption_key)

    def _reader(self, cluster: Cluster, found: VersionedRecord, keys: Keys) -> ReadHandle:
        return ReadHandle(cluster, found, *keys, self._encryption_key)
