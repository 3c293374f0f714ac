"""An auditor of journals: what was confirmed to writers is there, once, with the same bytes, at every acceptor."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from qjm_compat.aio import QuorumJournalManager
from qjm_compat.batch import Batch
from qjm_compat.edits import decode_op, frame_offsets
from qjm_compat.edits.ops.namespace import Mkdir
from qjm_compat.requests import GetEditLogManifest

from .journals import LAYOUT


@dataclass(frozen=True, order=True)
class Confirmed:
    """A batch that a flush confirmed, as its writer noted it. Its paths begin with `prefix`."""

    first: int
    last: int
    digest: str
    prefix: str

    @property
    def line(self) -> str:
        return f"{self.first} {self.last} {self.digest} {self.prefix}\n"


def confirmed_batch(first: int, last: int, records: bytes, prefix: str) -> Confirmed:
    return Confirmed(first, last, hashlib.sha256(records).hexdigest(), prefix)


def noted(path: Path) -> list[Confirmed]:
    """What stands in the notes of a writer; the last line may be torn."""
    if not path.exists():
        return []
    lines = [line.split() for line in path.read_text().split("\n")[:-1]]
    return [Confirmed(int(first), int(last), digest, prefix) for first, last, digest, prefix in lines]


async def audit(
    manager: QuorumJournalManager, notes: Iterable[Confirmed], look: Callable[[Mkdir], None] = lambda op: None
) -> int:
    """The last finalized txid. Fails unless everything confirmed is there as it was written, and nothing twice.

    Every edit is shown to `look` once, in order.
    """
    confirmed = sorted(notes)
    for one, after in zip(confirmed, confirmed[1:], strict=False):
        assert one.last < after.first, f"two owners: {one} and {after}"
    left = iter([*confirmed, None])
    batch, digest, txid = next(left), hashlib.sha256(), 0
    async with aclosing(edits_of(manager)) as edits:
        async for txid, frame in edits:
            op = decode_op(frame, LAYOUT)
            assert isinstance(op, Mkdir)
            look(op)
            if batch is None or txid < batch.first:
                continue
            assert op.path.startswith(f"/{batch.prefix}/"), f"{op} was confirmed as {batch}"
            digest.update(frame)
            if txid == batch.last:
                assert digest.hexdigest() == batch.digest, f"other bytes than {batch}"
                batch, digest = next(left), hashlib.sha256()
    assert batch is None, f"confirmed and lost: {batch}, the journal ends at {txid}"
    return txid


async def edits_of(
    manager: QuorumJournalManager, from_txid: int = 1
) -> AsyncGenerator[tuple[int, bytes], None]:
    """(txid, frame) of all finalized edits, in order; fails for one that is missing or there twice."""
    next_txid = from_txid
    for stream in await manager.select_input_streams(from_txid):
        assert stream.first_txid == next_txid
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                assert batch.first_txid == next_txid
                for frame in frames_of(batch):
                    yield next_txid, frame
                    next_txid += 1
        assert next_txid == stream.last_txid + 1


def frames_of(batch: Batch) -> Iterator[bytes]:
    starts = frame_offsets(batch.records)
    assert len(starts) == batch.num_txns
    for start, end in zip(starts, [*starts[1:], len(batch.records)], strict=True):
        yield batch.records[start:end]


async def differing_copies(manager: QuorumJournalManager) -> list[tuple[int, dict[str, str]]]:
    """Finalized segments, by their starts, of which two acceptors have different bytes, and what each has."""
    different: list[tuple[int, dict[str, str]]] = []
    finalized: dict[int, dict[str, str]] = {}
    for name, journal in manager._journals.items():
        for log in (await journal.call(GetEditLogManifest(0))).logs:
            content = await journal.read_segment(log.start_txid, log.start_txid, in_progress_ok=False)
            digest = hashlib.sha256()
            async with aclosing(content.batches) as batches:
                async for batch in batches:
                    digest.update(batch.records)
            finalized.setdefault(log.start_txid, {})[name] = f"{log.end_txid} {digest.hexdigest()}"
    for start, copies in sorted(finalized.items()):
        if len(set(copies.values())) != 1:
            different.append((start, copies))
    return different
