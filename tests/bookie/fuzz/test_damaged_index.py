"""Whatever became of the index: what cannot be read is IndexUnusable or ValueError, and nothing else comes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from bookie.errors import IndexUnusable
from bookie.index.frame_locations import FrameLocation
from bookie.index.index import Index
from bookie.index.local_ledger_state import Fence, LocalLedgerState
from bookie.wire.messages import LacStatement
from tests.bookie.fuzz.lmdb_damage import OUTCOMES

PLACE = FrameLocation(first_entry=12, position=5 << 32 | 640, last_entry=19, entries=8, size=1208)
STATE = LocalLedgerState(7, Fence.DURABLE, True, LacStatement(19, 2000, b"digest"), b"v" * 32, limbo=True)
SEEDS = 12
REPOSITORY = Path(__file__).parents[3]
UNREADABLE = (IndexUnusable, ValueError)


# --- an index in which LMDB finds nothing wrong, with other rows in it


def index_of_one_ledger(directory: Path) -> Index:
    directory.mkdir()
    index = Index(directory)
    index.add(7, PLACE)
    index.begin_checkpoint()
    index.commit_checkpoint(PLACE.position + PLACE.size, [(7, STATE.encode())])
    index.end_checkpoint()
    return index


USES: dict[str, tuple[str, Callable[[Index], object]]] = {
    "the checkpoint": ("meta", lambda index: index.checkpoint_position),
    "a state": ("ledgers", lambda index: index.ledger(7)),
    "all states": ("ledgers", lambda index: list(index.states())),
    "all ledgers": ("ledgers", lambda index: index.ledger_ids()),
    "a range": ("places", lambda index: index.holding(7, 12, 19, [], 10)),
    "all places": ("places", lambda index: list(index.places())),
    "what segments hold": ("usage", lambda index: index.usage.totals()),
    "what one holds": ("usage", lambda index: index.usage.of(5)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("part", ["key", "value"])
def test_a_row_of_another_length_makes_the_index_unusable(tmp_path: Path, use: str, part: str) -> None:
    """A row that is not found any more is another matter: nobody can tell."""
    database, ask = USES[use]
    index = index_of_one_ledger(tmp_path / "index")
    before = ask(index)
    with index._env.begin(write=True, db=index._env.open_db(database.encode())) as txn:
        for key, value in list(txn.cursor()):
            txn.delete(key)
            txn.put(*((key + b"?", value) if part == "key" else (key, value[:-1])))
    try:
        assert ask(index) in (before, 0, None, [], {})
    except UNREADABLE:
        pass
    finally:
        index.close()


# --- a file that is another


OLDER = {"a flipped bit of a meta page", "two pages swapped"}
"""What may bring back the meta page before: the index of the checkpoint before, which is whole."""


def test_a_damaged_index_never_says_less_than_was_written_without_saying_so() -> None:
    """R6: in a process of its own, which LMDB may kill: it takes any page for what it should be."""
    command = [sys.executable, "-m", "tests.bookie.fuzz.lmdb_damage", str(SEEDS)]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
    outcomes = defaultdict(set)
    for line in map(json.loads, done.stdout.splitlines()):
        outcomes[line["damage"]].add(line["outcome"])
    assert outcomes["a cut"] == {"unusable"}, "reading behind its end kills the process"
    assert "signal SIGALRM" not in set().union(*outcomes.values()), "nobody may look for ever"
    silent = {damage for damage, seen in outcomes.items() if "other answers" in seen}
    assert silent <= OLDER
    survived = {one for seen in outcomes.values() for one in seen if not one.startswith("signal")}
    assert survived <= set(OUTCOMES)
