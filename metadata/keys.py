"""Every key the system uses, on one page.

layout                     the cluster's id and format version
ids/ledger                 the next ledger id
ledgers/<id>               one record per ledger, id as 16 hex digits
cookies/<bookie>           the identity a bookie was formatted with
lives/<bookie>             how often the bookie has started
bookies/live/<bookie>      registration of a live bookie (under its lease), which says whether it is read-only
journals/<journal>/<acceptor>/state             what an acceptor of a journal has promised, and its latest segments
journals/<journal>/<acceptor>/segments/<txid>   one finalized segment, by its first txid as 16 hex digits
"""

from __future__ import annotations

import re

from .errors import BadRecord

LAYOUT = "layout"
NEXT_LEDGER_ID = "ids/ledger"
LEDGERS = "ledgers/"
COOKIES = "cookies/"
BOOKIES = "bookies/live/"
LIVES = "lives/"
JOURNALS = "journals/"

LEDGER_ID_MAX = 2**63 - 1

_LEDGER_DIGITS = re.compile(r"[0-7][0-9a-f]{15}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def is_name(name: str) -> bool:
    """Letters, digits, `.`, `_`, `-`, at most 128, so it can stand in a key or a path."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def check_name(name: str) -> str:
    """The name of a bookie or a journal. Raises ValueError where it is none."""
    if not is_name(name):
        raise ValueError(
            f"{name!r} is not a usable name: use letters, digits, '.', '_' and '-', at most 128 characters"
        )
    return name


def ledger(ledger_id: int) -> str:
    """The key of a ledger's record; fixed width, so that key order is id order."""
    assert 0 <= ledger_id <= LEDGER_ID_MAX
    return f"{LEDGERS}{ledger_id:016x}"


def ledger_id_of(key: str) -> int:
    """The inverse of `ledger`. Raises BadRecord for a key that is no ledger's."""
    digits = key.removeprefix(LEDGERS)
    if not _LEDGER_DIGITS.fullmatch(digits):
        raise BadRecord(key, "it is not the key of a ledger")
    return int(digits, 16)


def cookie(bookie_id: str) -> str:
    return COOKIES + check_name(bookie_id)


def bookie(bookie_id: str) -> str:
    return BOOKIES + check_name(bookie_id)


def life(bookie_id: str) -> str:
    return LIVES + check_name(bookie_id)


def journal_state(journal_id: str, acceptor: str) -> str:
    return f"{JOURNALS}{check_name(journal_id)}/{check_name(acceptor)}/state"


def journal_segments(journal_id: str, acceptor: str) -> str:
    return f"{JOURNALS}{check_name(journal_id)}/{check_name(acceptor)}/segments/"


def journal_segment(journal_id: str, acceptor: str, start_txid: int) -> str:
    """The key of a finalized segment; fixed width, so that key order is the order of txids."""
    assert 0 <= start_txid <= LEDGER_ID_MAX
    return f"{journal_segments(journal_id, acceptor)}{start_txid:016x}"
