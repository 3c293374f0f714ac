"""Edits straight from an acceptor, as `Journal._journaled_edits` gives them: from its cache, or from disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from qjm_compat.acceptor.copying import checked_part
from qjm_compat.acceptor.edits_cache import EditsCache, cut
from qjm_compat.acceptor.programs.edit_log_manifest import SegmentLocation
from qjm_compat.batch import Batch
from qjm_compat.errors import EditsNotCached, JournalError, NewerTxid
from qjm_compat.requests import GetJournaledEdits, JournaledEdits, RemoteEditLog

from .disk import Disk, FoundSegment
from .probes import JournalProbe
from .site import Host, Site

Reply = Callable[[Any, JournalError | None], None]

READ_SECONDS = 0.4
"""Between finding out where the edits are, and reading them: a recovery may come in between."""


class Followers:
    """Answers whoever follows a writer. `place` asks the acceptor where edits are."""

    def __init__(
        self,
        site: Site,
        host: Host,
        disk: Disk,
        cache: EditsCache,
        place: Callable[[GetJournaledEdits, Reply], None],
    ) -> None:
        self._site = site
        self._host = host
        self._disk = disk
        self._cache = cache
        self._place = place

    def answer(self, request: GetJournaledEdits, reply: Reply) -> None:
        last = self._cache.last_txid
        if last is not None and request.since_txid <= last:
            try:
                reply(self._cache.retrieve(request.since_txid, request.max_txns), None)
            except EditsNotCached:
                pass
            else:
                return
        self._place(request, partial(self._placed, request, reply))

    def _placed(
        self, request: GetJournaledEdits, reply: Reply, place: SegmentLocation, error: JournalError | None
    ) -> None:
        if error is not None:
            reply(None, error)
        else:
            self._site.within(self._host, READ_SECONDS, self._read, request, reply, place)

    def _read(self, request: GetJournaledEdits, reply: Reply, place: SegmentLocation) -> None:
        try:
            edits = self._edits_at(place, request)
        except JournalError as failure:
            reply(None, failure)
        else:
            reply(edits, None)

    def _edits_at(self, place: SegmentLocation, request: GetJournaledEdits) -> JournaledEdits:
        since = request.since_txid
        if since == place.highest_txid + 1:
            return JournaledEdits(0)
        if since > place.highest_txid:
            raise NewerTxid(f"{since} is asked for, and {place.highest_txid} is the last")
        if place.log is None:
            raise EditsNotCached(since, 0)
        self._site.reached(JournalProbe.TAILED_FROM_DISK)
        found, batches = self._disk.batches(place.log.start_txid, since)
        end = min(place.log.end_txid, since + request.max_txns - 1)
        return _gathered(found, place.log, batches, since, end)


def _gathered(
    found: FoundSegment, log: RemoteEditLog, batches: list[Batch], first_txid: int, last_txid: int
) -> JournaledEdits:
    parts: list[bytes] = []
    next_txid = first_txid
    for batch in batches:
        if next_txid <= last_txid:
            part = checked_part(batch, next_txid, batch.last_txid)
            parts.append(bytes(cut(part, next_txid, last_txid)))
            next_txid = part.last_txid + 1
    return JournaledEdits(
        min(next_txid - 1, last_txid) - first_txid + 1,
        found.layout_version,
        b"".join(parts),
        log.writer_epoch,
        not log.in_progress,
        log.accepted_in_epoch,
    )
