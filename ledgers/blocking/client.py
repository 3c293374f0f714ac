"""The blocking `LedgerClient`: every method runs its asyncio twin on a loop in a thread of its own, and waits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Unpack

from bookie.wire.messages import MaintainReply, MaintainRequest
from metadata.open import UriOrPath
from metadata.records.ledger_record import BookieRef, DigestType, LedgerRecord
from metadata.records.registration import Registration

from .. import aio
from ..config import ClientConfig
from ..creating.new_ledger import LedgerArguments, NewLedger
from ..errors import ClientClosed, WouldDeadlock
from ..loop_thread import in_pages, iterate
from ..reading.size_steps import SizeStep
from ..recovering.accept_loss import LossAssessment
from .coordination.election import Election
from .log_client import BlockingLogClient
from .paged_iterator import PagedIterator
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

    The path of an SQLite file will do, too; without either, BOOKLEDGER_METADATA names the cluster.
    May be used from several threads. Once it is closed every call on it and on its handles raises
    ClientClosed, also one that was waiting. In a process forked later every call raises ClientForked: make
    a client there. In a callback of an append's future a blocking call raises WouldDeadlock, because callbacks
    run on the client's thread.
    """

    def __init__(self, metadata_uri: UriOrPath | None = None, *, config: ClientConfig | None = None) -> None:
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
        """Creates a ledger and returns its writer; `NewLedger` describes the arguments.

        Defaults: write quorum = ensemble size, ack quorum = a majority of the write quorum. Raises
        ValueError for an impossible shape, NotEnoughBookies, LedgerExists (for a chosen
        ledger_id), MetadataUnavailable. On an error no ledger was made, except that after
        MetadataUnavailable an empty open one may exist.
        """
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

    def create_ledger_adv(
        self, new: NewLedger | None = None, **arguments: Unpack[LedgerArguments]
    ) -> AdvancedWriteHandle:
        """Creates a ledger whose writer chooses the entry ids, in any order.

        Takes the arguments of `create_ledger`, or all of them as a NewLedger. Raises as `create_ledger`.
        """
        handle = self._thread.run(self._twin.create_ledger_adv(new, **arguments))
        return AdvancedWriteHandle(self._thread, handle, self._config.pending_bytes_max)

    def reserve_ledger(self, new: NewLedger | None = None, **arguments: Unpack[LedgerArguments]) -> int:
        """Creates a ledger without a writer, for another process to claim; returns its id.

        Takes the arguments of `create_ledger`, or all of them as a NewLedger. Raises as `create_ledger`.
        """
        return self._thread.run(self._twin.reserve_ledger(new, **arguments))

    def claim_ledger(self, ledger_id: int, *, password: bytes = b"") -> WriteHandle:
        """Becomes the one writer of a ledger made by `reserve_ledger`.

        Raises LedgerClosed if it was already claimed, recovered or closed, NoSuchLedger, Unauthorized,
        MetadataUnavailable.
        """
        claimed = self._twin.claim_ledger(ledger_id, password=password)
        return WriteHandle(self._thread, self._thread.run(claimed))

    def open_ledger(self, ledger_id: int, *, recovery: bool = True, password: bytes = b"") -> ReadHandle:
        """Opens a ledger for reading. With `recovery` an open ledger is fenced, recovered and closed first.

        Without it the writer is left undisturbed, and the reader sees what the bookies know to be
        confirmed. Raises NoSuchLedger, Unauthorized (nothing is fenced or changed then),
        LedgerRecoveryFailed, MetadataUnavailable; without recovery NotEnoughAnswers.
        """
        opened = self._twin.open_ledger(ledger_id, recovery=recovery, password=password)
        return ReadHandle(self._thread, self._thread.run(opened))

    def assess_loss(self, ledger_id: int, *, password: bytes = b"") -> LossAssessment:
        """What would be given up if a ledger whose end cannot be proven were closed where its survivors end.

        Nothing is changed. Raises LedgerError where nothing need be given up: it can be recovered, or a bookie lives
        that may prove the end; LedgerClosed, NoSuchLedger, Unauthorized, MetadataUnavailable.
        """
        return self._thread.run(self._twin.assess_loss(ledger_id, password=password))

    def accept_loss(self, assessment: LossAssessment, *, password: bytes = b"") -> LedgerRecord:
        """Closes a ledger where its survivors end, and gives up what its missing bookies hold; its closed record.

        For an operator who was shown the assessment; the record keeps that it was done. It takes an admin's
        certificate, where there are any. Raises as `assess_loss`, and LedgerRecoveryFailed where more is lost by now.
        """
        return self._thread.run(self._twin.accept_loss(assessment, password=password))

    def salvage_ledger(
        self,
        ledger_id: int,
        *,
        password: bytes = b"",
        bookies: Collection[str] = (),
        past_the_end: bool = False,
    ) -> Salvage:
        """What there is of a ledger at any living bookie, or at those of these names; see `Salvage`.

        Nothing is fenced or changed. For a ledger of which a quorum is lost: what is not proven to be confirmed is
        given, too, and with `past_the_end` what lies behind the end of a closed one. Raises NoSuchLedger, Unauthorized,
        BadEncryptionKey, LedgerError for a name under which nobody lives, MetadataUnavailable.
        """
        salvage = self._twin.salvage_ledger(
            ledger_id, password=password, bookies=bookies, past_the_end=past_the_end
        )
        return Salvage(self._thread, self._thread.run(salvage))

    def list_ledgers(
        self,
        *,
        first_ledger: int = 0,
        skip_unreadable: bool = True,
        custom: Mapping[str, bytes] | None = None,
    ) -> PagedIterator[LedgerRecord]:
        """Yields the metadata of every ledger from `first_ledger` on, in id order; may be closed half-way.

        With `custom`, only of those whose custom metadata has all of these values. A record that this version cannot
        decode is skipped, with a warning in the log; without `skip_unreadable` it raises LedgerError. Raises
        MetadataUnavailable.
        """
        records = self._twin.list_ledgers(
            first_ledger=first_ledger, skip_unreadable=skip_unreadable, custom=custom
        )
        pages = in_pages(records, RECORDS_PER_HOP)
        return PagedIterator.over(iterate(self._thread, pages), iter)

    def describe_ledger(self, ledger_id: int) -> LedgerRecord:
        """Returns one ledger's metadata. Raises NoSuchLedger, MetadataUnavailable."""
        return self._thread.run(self._twin.describe_ledger(ledger_id))

    def size_steps(
        self, record: LedgerRecord, *, step_bytes: int, first_entry: int = 0, last_entry: int | None = None
    ) -> list[SizeStep]:
        """Estimates where the bytes of a closed ledger lie, for splitting it into parts of equal size.

        Returns rising pairs (entry, bytes before it), from (first_entry, 0) to behind `last_entry` (the ledger's by
        default), about `step_bytes` apart where bookies report their holdings. Unreported bytes count as spread evenly,
        so no failed bookie fails this. Raises ValueError for a ledger that is not closed, or a range outside it.
        """
        found = self._twin.size_steps(
            record, step_bytes=step_bytes, first_entry=first_entry, last_entry=last_entry
        )
        return self._thread.run(found)

    def delete_ledger(
        self, ledger_id: int, *, password: bytes = b"", force: bool = False, password_is_lost: bool = False
    ) -> None:
        """Deletes a ledger for good. Recovers an open one first, so that no writer can confirm any more.

        Raises NoSuchLedger, Unauthorized for a wrong password or certificate, LedgerRecoveryFailed if it is not closed,
        and then nothing is deleted. `force` deletes it as it is, for ledgers whose bookies are lost: a live writer may
        then get entries confirmed, which nobody can read, until its bookies collect garbage. With `password_is_lost` no
        password is needed and nothing is recovered; that takes an admin's certificate, where there are any. Otherwise
        the ledger's owner deletes it, or whoever knows its password.
        """
        self._thread.run(
            self._twin.delete_ledger(
                ledger_id, password=password, force=force, password_is_lost=password_is_lost
            )
        )

    def list_bookies(self) -> list[Registration]:
        """Lists every registered bookie. Raises MetadataUnavailable."""
        return self._thread.run(self._twin.list_bookies())

    def election(self, name: str) -> Election:
        """The election of this name: nothing has to be created. Raises ValueError for an unusable name."""
        return Election(self._thread, self._twin.election(name))

    def maintain_bookie(self, bookie: BookieRef, request: MaintainRequest, timeout: float) -> MaintainReply:
        """Has a bookie collect garbage, verify its disk or fetch what it lost; waits for its report.

        A refusal or a failure is a status in the reply. Raises BookieUnavailable when the bookie did not answer
        in `timeout` seconds; it was told to stop then. All of this is safe to repeat.
        """
        return self._thread.run(self._twin.maintain_bookie(bookie, request, timeout))
