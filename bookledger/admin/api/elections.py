"""Elections as plain values: the leader, term and candidates of each, all read from the metadata."""

from __future__ import annotations

from typing import Any

from metadata import keys
from metadata.errors import BadRecord
from metadata.records.coordination import election_record
from metadata.records.coordination.candidates import CandidateStore
from metadata.records.record_decoding import skip
from metadata.store import MetadataStore, Versioned, list_some

from .metadata_view import MetadataView, key_before

ELECTIONS_MAX = 100
"""Maximum number of elections on one page."""

WAITING_MAX = 20
"""Maximum number of candidates of one election that are listed; further ones are only counted."""

Facts = dict[str, Any]


async def elections(sight: MetadataView, first: str = "", limit: int = ELECTIONS_MAX) -> Facts:
    """Returns one page of all elections that ever had a leader, sorted by name. `next` is the start of the next
    page."""
    async with sight.looking() as store:
        await sight.name(store)
        page = await list_some(
            store, keys.ELECTIONS, after=key_before(keys.ELECTIONS, first), limit=limit + 1
        )
        rows = [row for item in page.items[:limit] for row in await _row(store, item)]
    following = [item.key.removeprefix(keys.ELECTIONS) for item in page.items[limit:]]
    return {"elections": rows, "next": following[0] if following else None}


async def _row(store: MetadataStore, item: Versioned) -> list[Facts]:
    try:
        term = election_record.decode(item.key, item.value)
        queue = await CandidateStore(store, item.key).queue()
    except BadRecord as error:
        skip(error)
        return []
    waiting = [one.name for one in queue.candidates if one.key != term.candidate]
    leads = len(waiting) < len(queue.candidates)
    return [
        {
            "election": item.key.removeprefix(keys.ELECTIONS),
            "token": term.token,
            "leader": term.leader if leads else None,
            "since_ms": term.since_ms if leads else None,
            "waiting": waiting[:WAITING_MAX],
            "waiting_count": len(waiting),
        }
    ]
