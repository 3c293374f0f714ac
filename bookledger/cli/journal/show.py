"""`bookledger journal list` and `show`: prints the state of acceptors, read without calling them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..membership.cluster_survey import check_is_cluster
from ..options import json_option, metadata_option
from ..output import Progress, print_json, print_record, print_records
from ..told.help import command
from ..told.interruption import nothing_changed, told_when_stopped
from .options import JournalPlace, journal_place

if TYPE_CHECKING:
    from qjm_compat.transfer.checking.acceptor_check import Expected
    from qjm_compat.transfer.inspection.acceptor_seen import AcceptorSeen
    from qjm_compat.transfer.inspection.inspector import JournalInspector


@command("list")
@metadata_option
@json_option
def list_(metadata_uri: str, as_json: bool) -> None:
    """Show every journal and its acceptors.

    Examples:
        bookledger journal list
    """
    with told_when_stopped(nothing_changed):
        check_is_cluster(metadata_uri)
        with _looking("looking at journals"):
            rows = asyncio.run(_all(metadata_uri))
    print_records(rows, as_json=as_json, none="there are no journals")


@command()
@journal_place
@json_option
def show(place: JournalPlace, as_json: bool) -> None:
    """Show a journal's state and its segments, at every acceptor that this metadata knows or --acceptor names.

    Examples:
        bookledger journal show ns1
    """
    with told_when_stopped(nothing_changed), _looking(f"looking at {place.journal_id}"):
        described = asyncio.run(_described(place))
    for fields, segments in described:
        if as_json:
            print_json({**fields, "segments": segments})
        else:
            print_record(fields, as_json=False)
            print_records(segments, as_json=False, none="it has no segments")


def _looking(title: str) -> Progress:
    return Progress(title, None, of="", is_mostly_quick=True)


async def _all(metadata_uri: str) -> list[dict[str, Any]]:
    """One that a newer program has written is named on stderr, and hides no other."""
    from metadata.errors import BadRecord
    from metadata.records import unreadable
    from qjm_compat import JournalError
    from qjm_compat.transfer.inspection.inspector import journals_in

    rows = []
    for journal_id, acceptor in await journals_in(metadata_uri):
        try:
            rows += await _rows(metadata_uri, journal_id, acceptor)
        except JournalError as error:
            if not isinstance(error.__cause__, BadRecord):
                raise
            unreadable.skip(error.__cause__)
    return rows


async def _rows(metadata_uri: str, journal_id: str, acceptor: str) -> list[dict[str, Any]]:
    from qjm_compat.config import AcceptorConfig
    from qjm_compat.transfer.inspection.inspector import JournalInspector

    async with JournalInspector(journal_id, [AcceptorConfig(acceptor, metadata_uri)]) as inspector:
        seen = await inspector.look(acceptor)
        return [] if seen is None else [_row(journal_id, seen, await _segments(inspector, seen))]


async def _described(place: JournalPlace) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    from qjm_compat.config import AcceptorConfig
    from qjm_compat.errors import JournalNotFormatted
    from qjm_compat.transfer.inspection.inspector import journals_in

    await place.check_known()
    if not place.acceptors:
        names = [
            name for journal, name in await journals_in(place.metadata_uri) if journal == place.journal_id
        ]
        place = replace(place, acceptors=tuple(AcceptorConfig(n, place.metadata_uri) for n in names))
    async with place.inspector() as inspector:
        found = await inspector.look_at_all()
        if not found:
            raise JournalNotFormatted(place.journal_id)
        described = []
        for seen in found.values():
            segments = await _segments(inspector, seen)
            described.append(({**_row(place.journal_id, seen, segments), **_more(seen)}, segments))
        return described


def _row(journal_id: str, seen: AcceptorSeen, segments: list[dict[str, Any]]) -> dict[str, Any]:
    storage = seen.state.storage
    ends = [segment["last"] for segment in segments if segment["last"] is not None]
    return {
        "journal": journal_id,
        "acceptor": seen.name,
        "namespace_id": storage.namespace_id if storage is not None else None,
        "promised_epoch": seen.state.last_promised_epoch,
        "writer_epoch": seen.state.last_writer_epoch,
        "segments_kept": len(segments),
        "first_txid": segments[0]["first"] if segments else None,
        "last_txid": max(ends, default=None),
    }


def _more(seen: AcceptorSeen) -> dict[str, Any]:
    storage = seen.state.storage
    return {
        "cluster_id": storage.cluster_id if storage is not None else None,
        "layout_version": storage.layout_version if storage is not None else None,
        "c_time": storage.c_time if storage is not None else None,
        "purged_before": seen.state.purged_below,
        "keeps_rollback": seen.state.previous is not None,
    }


async def _segments(inspector: JournalInspector, seen: AcceptorSeen) -> list[dict[str, Any]]:
    from ledgers import NoSuchLedger
    from qjm_compat.transfer.checking.acceptor_check import expected_segments

    client = inspector.clients[inspector.acceptors[seen.name]]
    ledgers = inspector.ledgers(seen.name)

    async def described(segment: Expected) -> dict[str, Any]:
        last, state, size = segment.end_txid, _state(segment), None
        try:
            size = (await client.describe_ledger(segment.ledger_id)).length_bytes
            if last is None:
                last = (await ledgers.look(segment.ledger_id)).end_txid
        except NoSuchLedger:
            state += ", its ledger is gone"
        return {
            "first": segment.start_txid,
            "last": last,
            "state": state,
            "ledger": segment.ledger_id,
            "bytes": size,
            "epoch": segment.writer_epoch,
            "layout": segment.layout_version,
        }

    in_order = sorted(expected_segments(seen), key=lambda segment: segment.start_txid)
    return [await described(segment) for segment in in_order]


def _state(segment: Expected) -> str:
    if segment.finalized:
        return "finalized"
    return "in progress" if segment.end_txid is None else "to be recovered"
