"""Checks that a bookie's directory and the metadata contain the same cookie; otherwise the bookie does not serve (rule
W7).

A cookie can be missing from the metadata for two reasons. Either `cluster decommission` removed it and left a record of
the removal, or it was lost because an operator deleted the key by hand or repaired the store with other tools.
`restore_cookie` writes a lost cookie to the metadata again, using the copy in the directory.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from metadata import keys
from metadata.backup import hold
from metadata.errors import StoreRefused
from metadata.healing import operator_requests
from metadata.healing.operator_requests import OrderKind
from metadata.records import cluster, decommissioned_bookies, directory_generations
from metadata.records.cluster import Cookie, find_bookie
from metadata.records.decommissioned_bookies import Decommissioned
from metadata.records.directory_generations import Life
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore, Versioned

from ..errors import DataDirectoryError
from .directory import COOKIE, check_parts, read_cookie, take_name
from .history import directory_generation

log = logging.getLogger(__name__)

FORMAT_A_NEW_ONE = "format an empty directory for a new bookie"


async def check_cookie(path: Path, store: MetadataStore) -> Cookie:
    """Returns the directory's cookie if the metadata has the same one. Raises DataDirectoryError."""
    cookie = read_cookie(path)
    known = await cluster.read_cookie(store, cookie.bookie_id)
    await _check_cluster(path, store, cookie)
    if known is None:
        return await _rejoined(path, store, cookie)
    if known.incarnation != cookie.incarnation and await _is_newer_than_metadata(store, cookie, known):
        log.warning(
            "bookie %s was formatted again after the restored metadata was saved: rejoining the cluster",
            cookie.bookie_id,
        )
        await _join_again(path, store, cookie, await store.get(keys.cookie(cookie.bookie_id)))
        return cookie
    if known.incarnation != cookie.incarnation:
        raise DataDirectoryError(
            f"{path} holds incarnation {cookie.incarnation} of bookie {cookie.bookie_id}; the cluster knows "
            f"incarnation {known.incarnation}. This is an old or foreign disk; do not use it under this name. (If the "
            "metadata is older than this disk and was restored with other tools, use `bookledger metadata` instead. "
            "If the disk does not list its predecessor and you know that it is the newer one, add "
            f'"{known.incarnation}" to the predecessors in {path / COOKIE}.)'
        )
    return cookie


async def _check_cluster(path: Path, store: MetadataStore, cookie: Cookie) -> None:
    there = await cluster.cluster_id(store)
    if there is None:
        raise DataDirectoryError(
            f"{path} belongs to bookie {cookie.bookie_id} of cluster {cookie.cluster_id}, but no cluster exists "
            "under this --metadata URI: check the URI. If the metadata is gone, restore a backup: "
            "`bookledger metadata restore`"
        )
    if there != cookie.cluster_id:
        raise DataDirectoryError(
            f"{path} belongs to bookie {cookie.bookie_id} of another cluster ({cookie.cluster_id}); check --metadata"
        )


async def _is_newer_than_metadata(store: MetadataStore, cookie: Cookie, known: Cookie) -> bool:
    """Returns whether this directory replaced the one whose cookie is in the metadata, which means that the metadata is
    older than this directory."""
    if known.incarnation not in cookie.predecessors or not await hold.may_be_older(store):
        return False
    return await decommissioned_bookies.read(store, cookie.incarnation) is None


async def _rejoined(path: Path, store: MetadataStore, cookie: Cookie) -> Cookie:
    """Lets a bookie rejoin its cluster if the bookie was formatted after the restored backup was made."""
    if (
        not await hold.may_be_older(store)
        or await decommissioned_bookies.read(store, cookie.incarnation) is not None
    ):
        raise await _missing(path, store, cookie)
    log.warning(
        "bookie %s was formatted after the restored backup was made: rejoining the cluster", cookie.bookie_id
    )
    await _join_again(path, store, cookie, None)
    return cookie


async def _join_again(path: Path, store: MetadataStore, cookie: Cookie, known: Versioned | None) -> None:
    """Writes the cookie to the restored metadata. Raises DataDirectoryError if the metadata user is not allowed to
    write cookies."""
    try:
        await take_name(store, cookie, known)
    except StoreRefused as error:
        raise DataDirectoryError(
            f"the restored metadata does not contain bookie {cookie.bookie_id}, and this user may not write cookies "
            f"({error}): run `bookledger bookie restore-cookie --data {path}` as a user with the role admin"
        ) from error


async def _missing(path: Path, store: MetadataStore, cookie: Cookie) -> DataDirectoryError:
    gone = await decommissioned_bookies.read(store, cookie.incarnation)
    if gone is not None:
        return _was_decommissioned(path, gone)
    return DataDirectoryError(
        f"the metadata has no cookie of bookie {cookie.bookie_id}, and no record that it was decommissioned: the "
        f"cookie was lost. `bookledger bookie restore-cookie --data {path}` restores it, if {path} is the newest "
        "directory of this bookie"
    )


def _was_decommissioned(path: Path, gone: Decommissioned) -> DataDirectoryError:
    return DataDirectoryError(
        f"{path} belongs to bookie {gone.bookie_id}, which was decommissioned at {gone.at}: its entries were copied to "
        f"other bookies, and no ledger refers to it; {FORMAT_A_NEW_ONE}"
    )


# --- restoring a lost cookie -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RestoredCookie:
    """Outcome of `restore_cookie`.

    `was_missing`: whether the cookie was missing and has now been written. `must_accept_loss`: whether the metadata has
    also lost the record of the bookie's log position. In that case the metadata cannot show whether this directory is
    the newest copy, and the next start requires `--accept-loss`.
    """

    cookie: Cookie
    was_missing: bool
    must_accept_loss: bool = False


async def restore_cookie(path: Path, store: MetadataStore) -> RestoredCookie:
    """Writes the directory's cookie to the metadata if it is missing there and was not removed deliberately.

    The bookie may be running. Raises DataDirectoryError, and changes nothing, if the directory is incomplete or belongs
    to another cluster, if the name belongs to another directory, or if the bookie was or is being decommissioned.
    """
    cookie = read_cookie(path)
    check_parts(path)
    await _check_cluster(path, store, cookie)
    known = await cluster.read_cookie(store, cookie.bookie_id)
    if known == cookie:
        return RestoredCookie(cookie, was_missing=False)
    is_replaced = known is not None and await _is_newer_than_metadata(store, cookie, known)
    await _check_name_is_free(path, store, cookie, None if is_replaced else known)
    await _check_not_given_up(path, store, cookie)
    unsure = await _has_lost_its_life(path, store, cookie)
    if unsure:
        await _check_is_referred_to(path, store, cookie)
        started = directory_generation.starts_of(path)
        # One more start than the directory has recorded, so that the directory counts as an older copy until every
        # ledger that may be affected is in limbo.
        await directory_generations.write(store, cookie.bookie_id, cookie.incarnation, Life(started + 1))
    await take_name(store, cookie, await store.get(keys.cookie(cookie.bookie_id)) if is_replaced else None)
    return RestoredCookie(cookie, was_missing=True, must_accept_loss=unsure)


async def _check_name_is_free(path: Path, store: MetadataStore, cookie: Cookie, known: Cookie | None) -> None:
    alive = await find_bookie(store, cookie.bookie_id)
    other = (
        known.incarnation if known is not None else alive.bookie.incarnation if alive is not None else None
    )
    if other is not None and other != cookie.incarnation:
        raise DataDirectoryError(
            f"the name {cookie.bookie_id} now belongs to another directory (incarnation {other}), and {path} holds "
            f"incarnation {cookie.incarnation}: start the bookie on that directory; to use this disk, "
            f"{FORMAT_A_NEW_ONE}"
        )


async def _check_not_given_up(path: Path, store: MetadataStore, cookie: Cookie) -> None:
    gone = await decommissioned_bookies.read(store, cookie.incarnation)
    if gone is not None:
        raise _was_decommissioned(path, gone)
    order = await operator_requests.read(store, cookie.bookie_id)
    if order is not None and order.kind is OrderKind.GIVEN_UP:
        raise DataDirectoryError(
            f"bookie {cookie.bookie_id} is being decommissioned. To keep it, first run: bookledger "
            f"cluster decommission {cookie.bookie_id} --cancel; otherwise {FORMAT_A_NEW_ONE}"
        )


async def _has_lost_its_life(path: Path, store: MetadataStore, cookie: Cookie) -> bool:
    """Returns whether the metadata has lost the record of this bookie's starts. Returns False for a running bookie,
    because its directory is known to be the newest copy."""
    if directory_generation.starts_of(path) == 0:
        return False
    alive = await find_bookie(store, cookie.bookie_id)
    return (
        alive is None
        and await directory_generations.read(store, cookie.bookie_id, cookie.incarnation) == Life()
    )


async def _check_is_referred_to(path: Path, store: MetadataStore, cookie: Cookie) -> None:
    """Raises DataDirectoryError if no ledger refers to the bookie: the bookie may have been decommissioned, and the
    record of its decommissioning may have been lost as well. Skips the check if the metadata may have been rolled back
    to an older copy, because that copy may predate everything the bookie holds."""
    if await hold.may_be_older(store):
        return
    me = BookieRef(cookie.bookie_id, cookie.incarnation)
    async for found in LedgerStore(store).list():
        if any(me in fragment.ensemble for fragment in found.record.fragments):
            return
    raise DataDirectoryError(
        f"no ledger refers to bookie {cookie.bookie_id} in {path}, and the metadata has no record of its starts: "
        "it was decommissioned, or never held anything, or the metadata is older than the bookie's "
        f"entries. If the metadata was ever rolled back or restored, keep {path}, because it may hold the only copies; "
        f"in any case, {FORMAT_A_NEW_ONE}"
    )
