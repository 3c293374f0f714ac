"""`bookledger journal list` and `show`: print the state of acceptors, without calling the acceptors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ..membership.cluster_survey import check_is_cluster
from ..messages.exit_codes import ExitCode
from ..messages.help import command
from ..messages.interruption import advise_when_stopped, nothing_changed
from ..options import json_option, metadata_option
from ..output import long_work, print_json, print_record, print_records
from .options import JournalPlace, journal_place

if TYPE_CHECKING:
    from ledgers import LedgerError
    from metadata.records.journal_record import SegmentRecord
    from qjm_compat.errors import JournalUnavailable
    from qjm_compat.transfer.inspection.acceptor_seen import AcceptorSeen
    from qjm_compat.transfer.inspection.inspector import JournalInspector

    Unread = dict[int, LedgerError | JournalUnavailable]

Fields = dict[str, Any]

FORMATTED, NOT_FORMATTED, UNKNOWN = "formatted", "not formatted", "unknown"
"""States of an acceptor."""

LISTED = ("namespace_id", "promised_epoch", "writer_epoch", "segments_kept", "first_txid", "last_txid")
OF_STATE = (*LISTED, "cluster_id", "layout_version", "c_time", "purged_before", "keeps_rollback")
"""Fields that are present only for an acceptor with a state."""


@command("list")
@metadata_option
@json_option
def list_(metadata_uri: str, as_json: bool) -> None:
    """Show every journal and its acceptors.

    If something cannot be read, `error` gives the reason, the rest is shown, and the exit code is 1.

    Examples:
        bookledger journal list
    """
    with advise_when_stopped(nothing_changed):
        check_is_cluster(metadata_uri)
    with long_work("looking at journals", nothing_changed):
        rows = asyncio.run(_all(metadata_uri))
    is_all_read = all(row["error"] is None for row in rows)
    if not as_json and is_all_read:
        rows = [_without(row, ["error"]) for row in rows]
    print_records(rows, as_json=as_json, none="there are no journals")
    if not is_all_read:
        click.get_current_context().exit(ExitCode.FAILED)


@command()
@journal_place
@json_option
def show(place: JournalPlace, as_json: bool) -> None:
    """Show a journal's state and its segments, at every acceptor that is in this metadata or named with --acceptor.

    If something cannot be read, `error` gives the reason, the rest is shown, and the exit code is 1.

    Examples:
        bookledger journal show ns1
    """
    with long_work(f"looking at {place.journal_id}", nothing_changed):
        described = asyncio.run(_described(place))
    for fields, segments in described:
        if as_json:
            print_json({**fields, "segments": segments})
        else:
            _print(fields, segments)
    if any(fields["error"] is not None for fields, _ in described):
        click.get_current_context().exit(ExitCode.FAILED)


def _print(fields: Fields, segments: list[Fields]) -> None:
    if fields["state"] == FORMATTED:
        hidden = ["error"] if fields["error"] is None else []
    else:
        hidden = [name for name, value in fields.items() if value is None]
    print_record(_without(fields, hidden), as_json=False)
    if fields["state"] == FORMATTED:
        print_records(segments, as_json=False, none="it has no segments")


def _without(fields: Fields, hidden: Sequence[str]) -> Fields:
    return {name: value for name, value in fields.items() if name not in hidden}


async def _all(metadata_uri: str) -> list[Fields]:
    """Returns the rows of all journals. A record of a newer version is reported on stderr, and the others are still
    returned."""
    from metadata.errors import BadRecord
    from metadata.records import record_decoding
    from qjm_compat import JournalError
    from qjm_compat.transfer.inspection.inspector import journals_in

    rows = []
    for journal_id, acceptor in await journals_in(metadata_uri):
        try:
            rows += await _rows(metadata_uri, journal_id, acceptor)
        except JournalError as error:
            if isinstance(error.__cause__, BadRecord):
                record_decoding.skip(error.__cause__)
            else:
                named = {"journal": journal_id, "acceptor": acceptor}
                rows.append({**named, **dict.fromkeys(LISTED), "error": str(error)})
    return rows


async def _rows(metadata_uri: str, journal_id: str, acceptor: str) -> list[Fields]:
    from qjm_compat.config import AcceptorConfig
    from qjm_compat.transfer.inspection.inspector import JournalInspector

    async with JournalInspector(journal_id, [AcceptorConfig(acceptor, metadata_uri)]) as inspector:
        seen = await inspector.look(acceptor)
        if seen is None:
            return []
        segments, unread = await _segments(inspector, seen)
        return [{**_row(journal_id, seen, segments), "error": _describe_unread(unread)}]


async def _described(place: JournalPlace) -> list[tuple[Fields, list[Fields]]]:
    """Returns every acceptor's fields and segments, including acceptors that are not formatted or cannot be read."""
    from qjm_compat.config import AcceptorConfig
    from qjm_compat.errors import JournalNotFormatted
    from qjm_compat.transfer.inspection.inspector import cannot_be_read, journals_in

    if not place.acceptors:
        names = [
            name for journal, name in await journals_in(place.metadata_uri) if journal == place.journal_id
        ]
        place = replace(place, acceptors=tuple(AcceptorConfig(n, place.metadata_uri) for n in names))
    async with place.inspector() as inspector:
        found, silent = await inspector.look_at_those_that_answer()
        silent |= {name: cannot_be_read(seen) for name, seen in found.items() if seen.unreadable}
        if found.keys() <= silent.keys():
            await place.check_known()
            errors = (silent[name] for name in inspector.acceptors if name in silent)
            raise next(errors, JournalNotFormatted(place.journal_id))
        return [
            await _one(inspector, name, found.get(name), silent.get(name)) for name in inspector.acceptors
        ]


async def _one(
    inspector: JournalInspector, name: str, seen: AcceptorSeen | None, error: JournalUnavailable | None
) -> tuple[Fields, list[Fields]]:
    """Returns an acceptor's fields and segments. `seen` is None if the journal is not formatted there, or if it cannot
    be read, in which case `error` gives the reason."""
    if error is not None:
        return _unseen(inspector.journal_id, name, UNKNOWN, str(error)), []
    if seen is None:
        return _unseen(inspector.journal_id, name, NOT_FORMATTED), []
    segments, unread = await _segments(inspector, seen)
    named = _unseen(inspector.journal_id, name, FORMATTED, _describe_unread(unread))
    return {**named, **_row(inspector.journal_id, seen, segments), **_more(seen)}, segments


def _describe_unread(unread: Unread) -> str | None:
    return "; ".join(f"segment {first}: {error}" for first, error in unread.items()) or None


def _unseen(journal_id: str, acceptor: str, state: str, error: str | None = None) -> Fields:
    """Returns a row whose fields are all empty except for the arguments."""
    named = {"journal": journal_id, "acceptor": acceptor, "state": state}
    return {**named, **dict.fromkeys(OF_STATE), "error": error}


def _row(journal_id: str, seen: AcceptorSeen, segments: list[Fields]) -> Fields:
    ends = [segment["last"] for segment in segments if segment["last"] is not None]
    return {
        "journal": journal_id,
        "acceptor": seen.name,
        **_of_namespace(seen, "namespace_id"),
        "promised_epoch": seen.state.last_promised_epoch,
        "writer_epoch": seen.state.last_writer_epoch,
        "segments_kept": len(segments),
        "first_txid": segments[0]["first"] if segments else None,
        "last_txid": max(ends, default=None),
    }


def _more(seen: AcceptorSeen) -> Fields:
    return {
        **_of_namespace(seen, "cluster_id", "layout_version", "c_time"),
        "purged_before": seen.state.purged_below,
        "keeps_rollback": seen.state.previous is not None,
    }


def _of_namespace(seen: AcceptorSeen, *names: str) -> Fields:
    storage = seen.state.storage
    return {name: None if storage is None else getattr(storage, name) for name in names}


async def _segments(inspector: JournalInspector, seen: AcceptorSeen) -> tuple[list[Fields], Unread]:
    """Returns the segments in order, and the reasons why the ledgers of some segments could not be read."""
    from ledgers import LedgerError, NoSuchLedger
    from qjm_compat.errors import JournalUnavailable

    client = inspector.clients[inspector.acceptors[seen.name]]
    ledgers = inspector.ledgers(seen.name)
    unread: Unread = {}

    async def described(segment: SegmentRecord) -> Fields:
        last, state, size = segment.end_txid, _state(segment), None
        try:
            size = (await client.describe_ledger(segment.ledger_id)).length_bytes
            if last is None:
                last = (await ledgers.look(segment.ledger_id)).end_txid
        except NoSuchLedger:
            state += ", its ledger is gone"
        except (LedgerError, JournalUnavailable) as error:
            state += ", its ledger cannot be read"
            unread[segment.start_txid] = error
        return {
            "first": segment.start_txid,
            "last": last,
            "state": state,
            "ledger": segment.ledger_id,
            "bytes": size,
            "epoch": segment.writer_epoch,
            "layout": segment.layout_version,
        }

    in_order = sorted(seen.segments, key=lambda segment: segment.start_txid)
    return [await described(segment) for segment in in_order], unread


def _state(segment: SegmentRecord) -> str:
    if segment.finalized:
        return "finalized"
    return "in progress" if segment.end_txid is None else "to be recovered"
