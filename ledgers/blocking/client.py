"""The blocking `LedgerClient`: runs the asyncio client on an event loop in a thread of its own.

Every method runs its asyncio twin on that thread and waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from bookie.wire.messages import MaintainReply, MaintainRequest
from metadata.records.ledger_record import BookieRef, DigestType, LedgerRecord
from metadata.records.registration import Registration

from .. import aio
from ..config import ClientConfig
from ..creating.new_ledger import NewLedger
from ..errors import ClientClosed, WouldDeadlock
from ..loop_thread import in_pages, iterate
from ..reading.size_steps import SizeStep
from ..recovering.accept_loss import LossAssessment
from .log_client import BlockingLogClient
from .read import ReadHandle
from .salvage import Salvage
from .write import AdvancedWriteHandle, WriteHandle

__all__ = [
    "AdvancedWriteHandle",
    "ClientClosed",
    "LedgerClient",
    "ReadHandle",
    "Salvage",
    "WouldDeadlock",
    "WriteHandle",
]

RECORDS_PER_HOP = 256
"""Records fetched from the loop's thread at a time when listing ledgers."""


class LedgerClient(BlockingLogClient):
    """A client of one cluster, named by its metadata URI. Use as `with LedgerClient(uri) as client`.

    May be used from several threads. Once it is closed every call on it and on its handles raises
    ClientClosed, also one that was waiting. In a process forked later every call raises ClientForked: make
    a client there. In a callback of an append's future a blocking call raises WouldDeadlock, because callbacks
    run on the client's thread.
    """

    def __init__(self, metadata_uri: str, *, config: ClientConfig | None = None) -> None:
        self._config = config or ClientConfig()
        super().__init__(aio.LedgerClient(metadata_uri, config=self._config))

    def create_ledger(
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
        """Creates a ledger and returns its writer; see `ledgers.aio.LedgerClient.create_ledger`."""
        handle = self._thread.run(
            self._twin.create_ledger(
                ensemble_size=ensemble_size,
                write_quorum=write_quorum,
                ack_quorum=ack_quorum,
                ledger_id=ledger_id,
                digest=digest,
                password=password,
                custom_metadata=custom_metadata,
                deferred_sync=deferred_sync,
            )
        )
        return WriteHandle(self._thread, handle)

    def create_ledger_adv(self, new: NewLedger | None = None) -> AdvancedWriteHandle:
        """Creates a ledger whose writer chooses the entry ids; see `ledgers.aio.LedgerClient.create_ledger_adv`."""
        handle = self._thread.run(self._twin.create_ledger_adv(new))
        return AdvancedWriteHandle(self._thread, handle, self._config.pending_bytes_max)

    def reserve_ledger(self, new: NewLedger) -> int:
        """Creates a ledger without a writer, for another process to claim; returns its id."""
        return self._thread.run(self._twin.reserve_ledger(new))

    def claim_ledger(self, ledger_id: int, *, password: bytes = b"") -> WriteHandle:
        """Becomes the one writer of a reserved ledger. Raises LedgerClosed when it has or had one."""
        claimed = self._twin.claim_ledger(ledger_id, password=password)
        return WriteHandle(self._thread, self._thread.run(claimed))

    def open_ledger(self, ledger_id: int, *, recovery: bool = True, password: bytes = b"") -> ReadHandle:
        """Opens a ledger for reading, recovered first by default. See `ledgers.aio.LedgerClient.open_ledger`."""
        opened = self._twin.open_ledger(ledger_id, recovery=recovery, password=password)
        return ReadHandle(self._thread, self._thread.run(opened))

    def assess_loss(self, ledger_id: int, *, password: bytes = b"") -> LossAssessment:
        """What closing a ledger where its survivors end would give up; see `ledgers.aio.LedgerClient.assess_loss`."""
        return self._thread.run(self._twin.assess_loss(ledger_id, password=password))

    def accept_loss(self, assessment: LossAssessment, *, password: bytes = b"") -> LedgerRecord:
        """Closes a ledger where its survivors end; see `ledgers.aio.LedgerClient.accept_loss`."""
        return self._thread.run(self._twin.accept_loss(assessment, password=password))

    def salvage_ledger(
        self,
        ledger_id: int,
        *,
        password: bytes = b"",
        bookies: Collection[str] = (),
        past_the_end: bool = False,
    ) -> Salvage:
        """What there is of a ledger at living bookies; see `ledgers.aio.LedgerClient.salvage_ledger`."""
        salvage = self._twin.salvage_ledger(
            ledger_id, password=password, bookies=bookies, past_the_end=past_the_end
        )
        return Salvage(self._thread, self._thread.run(salvage))

    def list_ledgers(self, *, first_ledger: int = 0, skip_unreadable: bool = True) -> Iterator[LedgerRecord]:
        """Yields the metadata of every ledger from `first_ledger` on; see `ledgers.aio.LedgerClient.list_ledgers`."""
        records = self._twin.list_ledgers(first_ledger=first_ledger, skip_unreadable=skip_unreadable)
        pages = in_pages(records, RECORDS_PER_HOP)
        return chain.from_iterable(iterate(self._thread, pages))

    def describe_ledger(self, ledger_id: int) -> LedgerRecord:
        """Returns one ledger's metadata. Raises NoSuchLedger."""
        return self._thread.run(self._twin.describe_ledger(ledger_id))

    def size_steps(
        self, record: LedgerRecord, *, step_bytes: int, first_entry: int = 0, last_entry: int | None = None
    ) -> list[SizeStep]:
        """Estimates where the bytes of a closed ledger lie; see `ledgers.aio.LedgerClient.size_steps`."""
        found = self._twin.size_steps(
            record, step_bytes=step_bytes, first_entry=first_entry, last_entry=last_entry
        )
        return self._thread.run(found)

    def delete_ledger(
        self, ledger_id: int, *, password: bytes = b"", force: bool = False, password_is_lost: bool = False
    ) -> None:
        """Deletes a ledger for good, after recovery if it is open; see `ledgers.aio.LedgerClient.delete_ledger`."""
        self._thread.run(
            self._twin.delete_ledger(
                ledger_id, password=password, force=force, password_is_lost=password_is_lost
            )
        )

    def list_bookies(self) -> list[Registration]:
        """Lists every registered bookie."""
        return self._thread.run(self._twin.list_bookies())

    def maintain_bookie(
        self, bookie: BookieRef, request: MaintainRequest, timeout_seconds: float
    ) -> MaintainReply:
        """Has a bookie do maintenance; see `ledgers.aio.LedgerClient.maintain_bookie`."""
        return self._thread.run(self._twin.maintain_bookie(bookie, request, timeout_seconds))
