"""JSON Schemas of the API's responses, used by the OpenAPI document and checked by the tests."""

from __future__ import annotations

from typing import Any

from bookie.upkeep.healing.ledger_counts import Condition
from metadata.counting.facts import OF_A_CLUSTER, Verdict

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
ENTRY: Schema = {"type": "integer", "minimum": -1}
SECONDS: Schema = {"type": "number", "minimum": 0}


def maybe(schema: Schema) -> Schema:
    """Returns a schema that also allows null."""
    return {"oneOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def record(**fields: Schema) -> Schema:
    """Returns the schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": fields,
        "required": sorted(fields),
        "additionalProperties": False,
    }


CONDITION: Schema = {"type": "string", "enum": [one.value for one in Condition]}
COUNTED: Schema = {"type": "object", "additionalProperties": COUNT}

_COUNTS = record(
    seconds_ago=SECONDS,
    ledgers=COUNTED,
    fragments=COUNTED,
    copies_left=maybe(COUNTED),
    under_replicated_ledgers=COUNT,
    left_behind_ledgers=COUNT,
    to_copy_bytes=COUNT,
    moving_ledgers=COUNT,
)
_FACT = record(
    fact={"type": "string", "enum": [one.name for one in OF_A_CLUSTER]},
    verdict={"type": "string", "enum": [one.value for one in Verdict]},
    why=TEXT,
    age_seconds=maybe(SECONDS),
    keeps_from_whole=FLAG,
)
_BOOKIE = record(
    bookie_id=TEXT,
    incarnation=TEXT,
    state=TEXT,
    absent_seconds=maybe(COUNT),
    lives=FLAG,
    address=maybe(TEXT),
    fault_domain=maybe(TEXT),
    writable=FLAG,
    heals=FLAG,
    version=maybe(TEXT),
    disk_total_bytes=maybe(COUNT),
    disk_free_bytes=maybe(COUNT),
    ledger_count=maybe(COUNT),
    fragment_count=maybe(COUNT),
    behind=maybe(COUNT),
)
_LEDGER: dict[str, Schema] = {
    "ledger_id": COUNT,
    "state": {"type": "string", "enum": ["open", "in_recovery", "closed"]},
    "last_entry": maybe(ENTRY),
    "length_bytes": maybe(COUNT),
    "last_add_confirmed": maybe(ENTRY),
    "confirmed_bytes": maybe(COUNT),
    "writer_address": maybe(TEXT),
    "ensemble_size": COUNT,
    "write_quorum": COUNT,
    "ack_quorum": COUNT,
    "digest": TEXT,
    "fragment_count": COUNT,
    "created_ms": COUNT,
    "condition": CONDITION,
}
_CUSTOM = listed(record(key=TEXT, value=TEXT, cut=FLAG))
_COPY: dict[str, Schema] = {
    "position": COUNT,
    "bookie_id": TEXT,
    "condition": CONDITION,
    "lacks": maybe(listed(maybe(COUNT))),
}
_SPAN: dict[str, Schema] = {"first_entry": COUNT, "last_entry": maybe(ENTRY)}
_MARK: dict[str, Schema] = {
    "ledger_id": COUNT,
    "since_seconds": COUNT,
    "reasons": listed(TEXT),
    "tries": COUNT,
    "why_not": TEXT,
}
_ACCEPTOR = record(
    acceptor=TEXT,
    problem=TEXT,
    namespace_id=maybe({"type": "integer"}),
    promised_epoch=maybe(COUNT),
    writer_epoch=maybe(COUNT),
    last_finalized_txid=maybe(COUNT),
    purged_before=maybe(COUNT),
    lag_txids=COUNT,
    lag_millis=maybe(COUNT),
    in_progress=listed(record(first_txid=COUNT, ledger_id=COUNT, epoch=COUNT)),
)

_LOG: dict[str, Schema] = {
    "log": TEXT,
    "set": maybe(TEXT),
    "first_position": COUNT,
    "ended_position": COUNT,
    "is_written": FLAG,
    "epoch": COUNT,
    "writer": TEXT,
    "legal_hold": FLAG,
    "retention": maybe(
        record(
            age_seconds=maybe(SECONDS),
            bytes=maybe(COUNT),
            cursors=listed(TEXT),
            cursor_silent_seconds=maybe(SECONDS),
        )
    ),
    "created_ms": COUNT,
}

SCHEMAS: dict[str, Schema] = {
    "Problem": record(type=TEXT, title=TEXT, status=COUNT, detail=TEXT),
    "Cluster": record(
        cluster_id=TEXT,
        condition={"type": "string", "enum": ["whole", "wounded", "counting"]},
        bookies=record(formatted=COUNT, living=COUNT, writable=COUNT),
        facts=listed(_FACT),
        absent=listed(TEXT),
        auditor=maybe(TEXT),
        braked=FLAG,
        restored=FLAG,
        noticed=maybe(record(bookie_id=TEXT, compared=TEXT, found=COUNT, expected=COUNT)),
        lost_after_seconds=SECONDS,
        metadata=record(
            kind=TEXT,
            version=TEXT,
            size_bytes=COUNT,
            members={"type": "object", "additionalProperties": TEXT},
            doubt=TEXT,
            refuses=TEXT,
            answer_seconds=SECONDS,
        ),
        disk=record(total_bytes=COUNT, free_bytes=COUNT),
        counts=maybe(_COUNTS),
    ),
    "Bookies": record(bookies=listed(_BOOKIE), next=maybe(TEXT)),
    "Ledgers": record(
        ledgers=listed(record(**_LEDGER, custom=_CUSTOM)),
        next=maybe(COUNT),
        next_id=COUNT,
        counts=maybe(COUNTED),
    ),
    "Ledger": record(
        **_LEDGER,
        closed_ms=maybe(COUNT),
        why_unknown=TEXT,
        writer=TEXT,
        has_password=FLAG,
        accepted_loss=maybe(
            record(
                at_ms=COUNT,
                by=TEXT,
                proven_through=ENTRY,
                given_up=listed(TEXT),
            )
        ),
        object_store=maybe(
            record(
                url=TEXT,
                key=TEXT,
                object_count=COUNT,
                object_bytes=COUNT,
                is_complete=FLAG,
                on_bookies=FLAG,
                at_ms=COUNT,
            )
        ),
        custom=_CUSTOM,
        fragments=listed(record(**_SPAN, condition=CONDITION, copies=listed(record(**_COPY)))),
        next_fragment=maybe(COUNT),
        mark=maybe(record(**_MARK)),
    ),
    "Fragments": record(
        under_replicated=listed(record(**_MARK, copies=listed(record(**_SPAN, **_COPY)))), next=maybe(COUNT)
    ),
    "Healing": record(
        auditor=maybe(TEXT),
        braked=FLAG,
        absent=listed(TEXT),
        healing=listed(
            record(
                ledger_id=COUNT, bookie_id=TEXT, seconds=SECONDS, bytes_copied=COUNT, bytes_per_second=COUNT
            )
        ),
        more=FLAG,
        to_copy_bytes=maybe(COUNT),
        away_bytes=maybe(COUNT),
        away=listed(record(ledger_id=COUNT, bookies=listed(TEXT))),
        lost_after_seconds=SECONDS,
        counted_seconds_ago=maybe(SECONDS),
        bytes_per_second=COUNT,
        seconds_left=maybe(COUNT),
        moving_ledgers=maybe(COUNT),
    ),
    "Elections": record(
        elections=listed(
            record(
                election=TEXT,
                token=COUNT,
                leader=maybe(TEXT),
                since_ms=maybe(COUNT),
                waiting=listed(TEXT),
                waiting_count=COUNT,
            )
        ),
        next=maybe(TEXT),
    ),
    "Logs": record(logs=listed(record(**_LOG)), next=maybe(TEXT)),
    "Log": record(
        **_LOG,
        identity=TEXT,
        owner=TEXT,
        ensemble_size=COUNT,
        write_quorum=COUNT,
        ack_quorum=COUNT,
        roll_bytes=COUNT,
        roll_records=COUNT,
        roll_seconds=SECONDS,
        forks=COUNT,
        is_fork=FLAG,
        leader=maybe(record(election=TEXT, token=COUNT, leader=maybe(TEXT), since_ms=maybe(COUNT))),
        segments=listed(
            record(
                first_position=COUNT,
                end_position=maybe(COUNT),
                ledger_id=COUNT,
                epoch=COUNT,
                encoded_bytes=maybe(COUNT),
                begun_ms=COUNT,
                ended_ms=maybe(COUNT),
            )
        ),
        next_segment=maybe(COUNT),
        cursors=listed(
            record(
                cursor=TEXT,
                position=COUNT,
                lag_records=maybe(COUNT),
                lag_seconds=maybe(SECONDS),
                truncated=COUNT,
                consumer=TEXT,
                changed_ms=COUNT,
            )
        ),
        goes_before=maybe(COUNT),
        next=maybe(
            record(
                first_position=COUNT,
                end_position=COUNT,
                encoded_bytes=COUNT,
                stays_because=TEXT,
                goes_ms=maybe(COUNT),
            )
        ),
        counted_cursors=listed(
            record(cursor=TEXT, position=maybe(COUNT), silent_seconds=SECONDS, counts=FLAG)
        ),
    ),
    "Journals": record(
        journals=listed(
            record(
                journal_id=TEXT,
                writer_epoch=COUNT,
                last_finalized_txid=maybe(COUNT),
                acceptors=listed(_ACCEPTOR),
            )
        ),
        more=FLAG,
    ),
}
