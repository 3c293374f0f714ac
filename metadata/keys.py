"""The schema of the metadata: every key that the system uses.

layout                     the cluster's id and format version
ids/ledger                 the next ledger id
ids/retired                the end of the ids whose tombstones have all been deleted
ledgers/<id>               one record per ledger, id as 16 hex digits
cookies/<bookie>           the identity a bookie was formatted with
decommissioned/<uuid>      an operator has removed the cookie of this incarnation
lives/<bookie>             generation of the bookie's directory: how often it has started
bookies/live/<bookie>      registration of a live bookie (under its lease)
collected/<bookie>         the revision up to which the bookie has dropped deleted ledgers
underreplicated/<id>       a ledger that has fewer copies than it should, and since when
healing/<id>               the bookie that re-replicates the ledger (under a lease)
moves/<id>                 planned moves of the ledger's copies, to balance disk usage
absent/<bookie>            the time since which a formatted bookie has not been registered
orders/<bookie>            an operator's request for a bookie: drain, maintenance, give up
offloader                  results of the last round of the offloader to an object store
auditor                    the elected auditor (under a lease)
coldremovals/<key>         objects to delete from an object store, unless the ledger's record refers to them
restored                   the hold: the metadata came from a backup, and has not been accepted yet
accepted                   the last acceptance of older metadata
misfits/<bookie>           a bookie's entries that do not match the backup
journals/<journal>/<acceptor>/state             the promises of a journal's acceptor, and its latest segments
journals/<journal>/<acceptor>/segments/<txid>   one finalized segment, by its first txid as 16 hex digits
journalnodes/<name>        the daemon that serves the acceptors of this name (under its lease)
logs/<identity>            one record per log: its writer's epoch, its latest segments, its first position
lognames/<name>            the identity of the log with this name, if the log's record confirms the name
logpages/<identity>/<position>   earlier segments of a log, by the position after the last of them
logtimes/<identity>/<time><position>   the same page, by the time of its last record
logproducers/<identity>/<position>   the known producers of the log's records before this position
elections/<name>           the latest term of an election
cursors/<identity>/<name>  the position of a reader of the log
silences/<identity>        how long the cursors that retain records of the log have not moved
logsets/<name>             the number of logs of a set, and where each log ended when the set grew
logshares/<set>/<group>    the logs of the set that each member of a group of consumers has
candidates/<key>/<nonce>   a program that leads, or waits to lead, by the record under <key> (under its lease)
"""

from __future__ import annotations

import re

from .errors import BadRecord

LAYOUT = "layout"
NEXT_LEDGER_ID = "ids/ledger"
RETIRED_IDS = "ids/retired"
LEDGERS = "ledgers/"
COOKIES = "cookies/"
DECOMMISSIONED = "decommissioned/"
BOOKIES = "bookies/live/"
LIVES = "lives/"
JOURNALS = "journals/"
JOURNAL_NODES = "journalnodes/"
LOGS = "logs/"
LOG_NAMES = "lognames/"
LOG_PAGES = "logpages/"
LOG_TIMES = "logtimes/"
LOG_PRODUCERS = "logproducers/"
ELECTIONS = "elections/"
CANDIDATES = "candidates/"
CURSORS = "cursors/"
LOG_SETS = "logsets/"
LOG_SHARES = "logshares/"
SILENCES = "silences/"
COLLECTED = "collected/"
UNDERREPLICATED = "underreplicated/"
HEALING = "healing/"
MOVES = "moves/"
ABSENT = "absent/"
ORDERS = "orders/"
AUDITOR = "auditor"
COLD_REMOVALS = "coldremovals/"
OFFLOADER = "offloader"
RESTORED = "restored"
ACCEPTED = "accepted"
MISFITS = "misfits/"

LEDGER_ID_MAX = 2**63 - 1

_LEDGER_DIGITS = re.compile(r"[0-7][0-9a-f]{15}")
NAME_CHARACTERS_MAX = 128

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_CHARACTERS_MAX - 1}}}")


def is_name(name: str) -> bool:
    """Returns whether the name is valid: letters, digits, `.`, `_` and `-`, so that it can be part of a key or a path.
    It must begin with a letter or a digit and have at most NAME_CHARACTERS_MAX characters."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def check_name(name: str) -> str:
    """Returns the name of a bookie, a journal or a log. Raises ValueError for an invalid one."""
    if not is_name(name):
        raise ValueError(
            f"{name!r} is not a usable name: use letters, digits, '.', '_' and '-', "
            f"at most {NAME_CHARACTERS_MAX} characters"
        )
    return name


def ledger(ledger_id: int) -> str:
    """Returns the key of a ledger's record. The id has a fixed width, so that keys sort by id."""
    assert 0 <= ledger_id <= LEDGER_ID_MAX
    return f"{LEDGERS}{ledger_id:016x}"


def ledger_id_of(key: str) -> int:
    """Parses the ledger id from a key that ends in one. Raises BadRecord for any other key."""
    digits = key.rpartition("/")[2]
    if not _LEDGER_DIGITS.fullmatch(digits):
        raise BadRecord(key, "the key does not end in a ledger id")
    return int(digits, 16)


def underreplicated(ledger_id: int) -> str:
    return UNDERREPLICATED + ledger(ledger_id).removeprefix(LEDGERS)


def healing(ledger_id: int) -> str:
    return HEALING + ledger(ledger_id).removeprefix(LEDGERS)


def moves(ledger_id: int) -> str:
    return MOVES + ledger(ledger_id).removeprefix(LEDGERS)


def cold_removal(key: str) -> str:
    return COLD_REMOVALS + check_name(key)


def collected(bookie_id: str) -> str:
    return COLLECTED + check_name(bookie_id)


def absent(bookie_id: str) -> str:
    return ABSENT + check_name(bookie_id)


def order(bookie_id: str) -> str:
    return ORDERS + check_name(bookie_id)


def misfits(bookie_id: str) -> str:
    return MISFITS + check_name(bookie_id)


def cookie(bookie_id: str) -> str:
    return COOKIES + check_name(bookie_id)


def decommissioned(incarnation: str) -> str:
    return DECOMMISSIONED + check_name(incarnation)


def bookie(bookie_id: str) -> str:
    return BOOKIES + check_name(bookie_id)


def life(bookie_id: str) -> str:
    return LIVES + check_name(bookie_id)


def journal_node(name: str) -> str:
    return JOURNAL_NODES + check_name(name)


def journal_state(journal_id: str, acceptor: str) -> str:
    return f"{JOURNALS}{check_name(journal_id)}/{check_name(acceptor)}/state"


def journal_segments(journal_id: str, acceptor: str) -> str:
    return f"{JOURNALS}{check_name(journal_id)}/{check_name(acceptor)}/segments/"


def journal_segment(journal_id: str, acceptor: str, start_txid: int) -> str:
    """Returns the key of a finalized segment. The txid has a fixed width, so that keys sort by txid."""
    assert 0 <= start_txid <= LEDGER_ID_MAX
    return f"{journal_segments(journal_id, acceptor)}{start_txid:016x}"


def log(identity: bytes) -> str:
    return LOGS + identity.hex()


def log_name(name: str) -> str:
    return LOG_NAMES + check_name(name)


def log_pages(identity: bytes) -> str:
    return f"{LOG_PAGES}{identity.hex()}/"


def log_page(identity: bytes, end_position: int) -> str:
    """Returns the key of the page that ends at this position. The page that holds a position has the first key greater
    than this function's result for that position."""
    assert 0 <= end_position <= LEDGER_ID_MAX
    return f"{log_pages(identity)}{end_position:016x}"


def log_times(identity: bytes) -> str:
    return f"{LOG_TIMES}{identity.hex()}/"


def log_time(identity: bytes, ended_us: int, end_position: int | None = None) -> str:
    """Returns the key that finds a page by the time at which it ends. Without a position, returns a string that sorts
    before the keys of all pages that end at this time or later."""
    assert 0 <= ended_us <= LEDGER_ID_MAX
    behind = "" if end_position is None else f"{end_position:016x}"
    return f"{log_times(identity)}{ended_us:016x}{behind}"


def log_producers(identity: bytes) -> str:
    return f"{LOG_PRODUCERS}{identity.hex()}/"


def log_producers_at(identity: bytes, position: int) -> str:
    """Returns the key of the producers known at a position. The position has a fixed width, so that keys sort by
    position."""
    assert 0 <= position <= LEDGER_ID_MAX
    return f"{log_producers(identity)}{position:016x}"


def election(name: str) -> str:
    return ELECTIONS + check_name(name)


def cursors(log_identity: bytes) -> str:
    return f"{CURSORS}{log_identity.hex()}/"


def cursor(log_identity: bytes, name: str) -> str:
    return cursors(log_identity) + check_name(name)


def silences(log_identity: bytes) -> str:
    return SILENCES + log_identity.hex()


def log_set(name: str) -> str:
    return LOG_SETS + check_name(name)


def all_log_shares(log_set: str) -> str:
    """Returns the prefix of the keys under which the shares of a set's groups are recorded."""
    return f"{LOG_SHARES}{check_name(log_set)}/"


def log_shares(log_set: str, group: str) -> str:
    return all_log_shares(log_set) + check_name(group)


def candidates(led: str) -> str:
    """Returns the common prefix of the keys of all candidates for the record under the key `led`."""
    return f"{CANDIDATES}{led}/"


def candidate(led: str, nonce: bytes) -> str:
    return candidates(led) + nonce.hex()
