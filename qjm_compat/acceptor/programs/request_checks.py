"""Validates the numbers in requests before anything is changed."""

from __future__ import annotations

from metadata.records.journal_record import JournalStorage

from ...errors import BadRequest

TXID_MAX = 2**63 - 2
"""The highest possible txid. The number after it must also fit in 64 bits."""

LAYOUT_MIN, LAYOUT_MAX = -(2**31), 2**31 - 1
NUMBER_MAX = 2**63 - 1


def check_txid(what: str, txid: int, *, least: int = 1) -> None:
    """Raises BadRequest if a txid is out of range."""
    if not least <= txid <= TXID_MAX:
        raise BadRequest(f"the {what} is {txid}; it must be from {least} to {TXID_MAX}")


def check_layout(layout_version: int | None) -> None:
    """Raises BadRequest if a layout version does not fit in 32 bits."""
    if layout_version is not None and not LAYOUT_MIN <= layout_version <= LAYOUT_MAX:
        raise BadRequest(f"the layout version is {layout_version}; it must fit in 32 bits")


def check_storage(storage: JournalStorage) -> None:
    """Raises BadRequest if this storage info contains a number that a journal cannot store."""
    check_layout(storage.layout_version)
    for what, number in (("namespaceID", storage.namespace_id), ("cTime", storage.c_time)):
        if not 0 <= number <= NUMBER_MAX:
            raise BadRequest(f"the {what} is {number}; it must be from 0 to {NUMBER_MAX}")
