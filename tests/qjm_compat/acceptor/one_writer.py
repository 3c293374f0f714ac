"""One writer's calls to one acceptor, numbered as its channel numbers them, and what an acceptor holds."""

from __future__ import annotations

from contextlib import aclosing
from typing import Protocol

from qjm_compat import requests
from qjm_compat.acceptor.copying import SegmentReader
from qjm_compat.sync.syncer import SyncedAcceptor
from tests.qjm_compat.journals import NAMESPACE, frames


class ReadableAcceptor(requests.Acceptor, SyncedAcceptor, SegmentReader, Protocol):
    """An acceptor that also gives the edits of its segments, and takes in those of others."""


class OneWriter:
    """A writer of one epoch. `by` is what its edits say: two writers write different bytes under one txid."""

    def __init__(self, acceptor: requests.Acceptor, epoch: int, *, first_serial: int = 0) -> None:
        self.acceptor = acceptor
        self.epoch = epoch
        self.committed_txid: int | None = None
        self.serial = first_serial

    @property
    def by(self) -> str:
        return f"w{self.epoch}"

    def info(self) -> requests.RequestInfo:
        self.serial += 1
        return requests.RequestInfo(self.epoch, self.serial - 1, self.committed_txid)

    async def new_epoch(self) -> requests.NewEpochReply:
        return await self.acceptor.call(requests.NewEpoch(NAMESPACE, self.epoch))

    async def beat(self) -> None:
        await self.acceptor.call(requests.Heartbeat(info=self.info()))

    async def start(self, txid: int, layout_version: int | None = None) -> None:
        await self.acceptor.call(
            requests.StartLogSegment(info=self.info(), txid=txid, layout_version=layout_version)
        )

    async def send(self, segment_txid: int, first_txid: int, num_txns: int = 1) -> None:
        await self._send(segment_txid, first_txid, num_txns, frames(first_txid, num_txns, self.by))

    async def send_frames(self, segment_txid: int, first_txid: int, *ops: bytes) -> None:
        """A batch of frames that were made elsewhere."""
        await self._send(segment_txid, first_txid, len(ops), b"".join(ops))

    async def _send(self, segment_txid: int, first_txid: int, num_txns: int, records: bytes) -> None:
        await self.acceptor.call(
            requests.SendEdits(
                info=self.info(),
                segment_txid=segment_txid,
                first_txid=first_txid,
                num_txns=num_txns,
                records=records,
            )
        )

    async def finalize(self, start_txid: int, end_txid: int) -> None:
        await self.acceptor.call(
            requests.FinalizeLogSegment(info=self.info(), start_txid=start_txid, end_txid=end_txid)
        )

    async def prepare(self, segment_txid: int) -> requests.PrepareReply:
        return await self.acceptor.call(requests.PrepareRecovery(info=self.info(), segment_txid=segment_txid))

    async def accept(self, state: requests.SegmentState, source: str = "a") -> None:
        await self.acceptor.call(requests.AcceptRecovery(info=self.info(), state=state, source=source))

    async def purge(self, min_txid_to_keep: int) -> None:
        await self.acceptor.call(requests.PurgeLogs(info=self.info(), min_txid_to_keep=min_txid_to_keep))

    async def write_open(self, first_txid: int, last_txid: int) -> None:
        """A segment in progress, one batch an edit."""
        await self.start(first_txid)
        for txid in range(first_txid, last_txid + 1):
            await self.send(first_txid, txid)

    async def write_final(self, first_txid: int, last_txid: int) -> None:
        await self.write_open(first_txid, last_txid)
        await self.finalize(first_txid, last_txid)

    async def take_over(self, segment_txid: int) -> None:
        """Recovers and finalizes a segment as it is here."""
        found = (await self.prepare(segment_txid)).segment
        assert found is not None
        await self.accept(found)
        await self.finalize(found.start_txid, found.end_txid)


async def formatted(acceptor: requests.Acceptor) -> None:
    await acceptor.call(requests.Format(NAMESPACE))


async def writer_of(acceptor: requests.Acceptor, epoch: int) -> OneWriter:
    """A writer that the acceptor has promised the journal to."""
    writer = OneWriter(acceptor, epoch)
    await writer.new_epoch()
    return writer


async def first_writer(acceptor: requests.Acceptor) -> OneWriter:
    """The writer of epoch 1, of a journal that is formatted for it."""
    await formatted(acceptor)
    return await writer_of(acceptor, 1)


async def next_writer(acceptor: requests.Acceptor) -> OneWriter:
    """A writer of the first epoch that the acceptor has not promised away."""
    return await writer_of(
        acceptor, 1 + (await acceptor.call(requests.GetJournalState())).last_promised_epoch
    )


async def logs(
    acceptor: requests.Acceptor, since_txid: int = 0, *, in_progress_ok: bool = True
) -> list[tuple[int, int, bool]]:
    """What a manifest shows: first txid, last txid, whether in progress."""
    manifest = await acceptor.call(requests.GetEditLogManifest(since_txid, in_progress_ok))
    return [(log.start_txid, log.end_txid, log.in_progress) for log in manifest.logs]


async def content(acceptor: SegmentReader, start_txid: int, from_txid: int | None = None) -> bytes:
    """The frames of a segment as the acceptor gives them, from the batch that holds `from_txid` on."""
    found = await acceptor.read_segment(start_txid, start_txid if from_txid is None else from_txid)
    async with aclosing(found.batches) as batches:
        return b"".join([batch.records async for batch in batches])


def edits(first_txid: int, last_txid: int, epoch: int) -> bytes:
    """The frames that the writer of an epoch writes at these txids."""
    return frames(first_txid, last_txid - first_txid + 1, f"w{epoch}")


def is_nothing(found: requests.JournaledEdits) -> bool:
    return found.txn_count == 0 and not found.records
