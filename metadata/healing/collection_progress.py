"""Progress of bookies in dropping deleted ledgers. A ledger that all bookies have dropped needs no tombstone.

A tombstone permits a bookie to drop a ledger (B3). It is therefore kept until every formatted bookie that has not been
decommissioned has dropped all ledgers deleted up to and including this one. After that, only one number is kept: the
end of the retired ids. No id below it is assigned again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from .. import keys, settled_writes
from ..errors import BadRecord
from ..records import records_pb2 as pb
from ..records.cluster import Cookie
from ..records.ledger_ids import count_beyond
from ..records.ledger_record import BookieRef, Tombstone
from ..records.ledger_store import LedgerStore
from ..records.record_decoding import parse_record, skip
from ..store import MetadataStore, Versioned, list_all
from ..version import encode_record

FORMAT_VERSION = 1


async def note(store: MetadataStore, bookie: BookieRef, revision: int) -> None:
    """Records that this bookie neither has nor will get any entries of ledgers deleted up to this revision."""
    message = pb.Collected(
        format_version=FORMAT_VERSION,
        incarnation=bookie.incarnation,
        revision=revision,
        nonce=settled_writes.new_nonce(),
    )
    await settled_writes.put(store, keys.collected(bookie.bookie_id), encode_record(message))


async def passed_by_all(store: MetadataStore) -> int:
    """Returns the revision up to which every bookie has dropped deleted ledgers; 0 if any bookie has not reported."""
    reports = {item.key.removeprefix(keys.COLLECTED): item async for item in list_all(store, keys.COLLECTED)}
    passed = [_passed(item, reports) async for item in list_all(store, keys.COOKIES)]
    return min(passed, default=0)


def _passed(cookie: Versioned, reports: dict[str, Versioned]) -> int:
    found = reports.get(cookie.key.removeprefix(keys.COOKIES))
    if found is None:
        return 0
    try:
        incarnation = Cookie.decode(cookie.key, cookie.value).incarnation
        message = parse_record(pb.Collected, found.key, found.value, FORMAT_VERSION)
    except BadRecord as error:
        skip(error)
        return 0
    # A report restored from a backup contains a revision of another store. Such a report is recognized because the
    # version of its key is not higher than that revision.
    is_of_here = message.incarnation == incarnation and message.revision < found.version
    return message.revision if is_of_here else 0


async def retire(store: MetadataStore, tombstones: Mapping[int, int]) -> None:
    """Deletes these tombstones, given as a mapping of ledger ids to versions. First raises the end of the retired ids,
    which takes the place of the tombstones.

    Reads the tombstones once more, because a store that was rolled back may assign a version twice (rule W8), so the
    record with that version may be a ledger. Raises MetadataError; in that case, some tombstones may be left.
    """
    found = [
        one async for one in LedgerStore(store).look_up(sorted(tombstones)) if isinstance(one, Tombstone)
    ]
    standing = {one.ledger_id: one.version for one in found if one.version == tombstones[one.ledger_id]}
    if not standing:
        return
    await count_beyond(store, max(standing), keys.RETIRED_IDS)
    delete = settled_writes.delete_unless_changed
    await asyncio.gather(*(delete(store, keys.ledger(n), version) for n, version in standing.items()))
