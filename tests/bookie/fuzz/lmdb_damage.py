"""What LMDB, which has no checksums, makes of a file whose bytes are others: a campaign in processes of its own.

python -m tests.bookie.fuzz.lmdb_damage [SEEDS]     a line of JSON for each damaged copy

right          everything as it was
other answers  something is missing or different, and nobody notices
unusable       IndexUnusable, or the index says itself that it has lost frames
raises …       some other exception
signal …       the process is killed: LMDB asserts, or follows a page number out of its map
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

from bookie.errors import IndexUnusable
from bookie.index.frame_locations import FrameLocation
from bookie.index.index import Index
from bookie.index.local_ledger_state import LocalLedgerState

PAGE = 4096
META_BYTES = 2 * PAGE
SECONDS_MAX = 20
FRAMES, LEDGERS = 4000, 300
OUTCOMES = ("right", "other answers", "unusable")

Damage = Callable[[Random, bytearray], None]


def _flip(random: Random, data: bytearray) -> None:
    data[random.randrange(META_BYTES, len(data))] ^= 1 << random.randrange(8)


def _flip_meta(random: Random, data: bytearray) -> None:
    data[random.randrange(2) * PAGE + random.randrange(160)] ^= 1 << random.randrange(8)


def _cut(random: Random, data: bytearray) -> None:
    del data[random.randrange(len(data)) :]


def _swap(random: Random, data: bytearray) -> None:
    one, other = (n * PAGE for n in random.sample(range(len(data) // PAGE), 2))
    data[one : one + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[one : one + PAGE]


def _overwrite(size: int, new: Callable[[Random, int], bytes]) -> Damage:
    def overwrite(random: Random, data: bytearray) -> None:
        start = random.randrange(META_BYTES // size, len(data) // size) * size
        data[start : start + size] = new(random, size)

    return overwrite


DAMAGE: dict[str, Damage] = {
    "a flipped bit": _flip,
    "a flipped bit of a meta page": _flip_meta,
    "a cut": _cut,
    "two pages swapped": _swap,
    "a sector of zeros": _overwrite(512, lambda _, size: bytes(size)),
    "a page of zeros": _overwrite(PAGE, lambda _, size: bytes(size)),
    "a sector of noise": _overwrite(512, Random.randbytes),
    "a page of noise": _overwrite(PAGE, Random.randbytes),
}


def make(directory: Path) -> None:
    """An index with some levels of pages, written by two checkpoints."""
    index = Index(directory)
    for start, states in ((0, LEDGERS), (FRAMES, 5)):
        for n in range(start, start + FRAMES):
            index.add(n % 5, FrameLocation(n // 5 * 2, 64 + n * 128, n // 5 * 2 + 1, 2, 128))
        index.begin_checkpoint()
        rows = [(ledger_id, LocalLedgerState(ledger_id, known=True).encode()) for ledger_id in range(states)]
        index.commit_checkpoint(64 + (start + FRAMES) * 128, rows)
        index.end_checkpoint()
    index.close()


def view(directory: Path) -> object:
    """Everything the index says, if it says that it is whole, as a bookie makes sure before it denies anything."""
    with closing(Index(directory)) as index:
        if not all(index.is_whole(ledger_id) for ledger_id in range(5)):
            raise IndexUnusable("it has lost frames")
        held = [index.holding(ledger_id, 10, 60, [], 100) for ledger_id in range(5)]
        states = [index.ledger(ledger_id) for ledger_id in range(LEDGERS)]
        all_places, all_states = list(index.places()), list(index.states())
        return index.checkpoint_position, held, states, all_places, all_states, index.usage.totals()


def outcome(directory: Path, truth: object) -> str:
    """What becomes of a child that reads all of this index."""
    report_end, child_end = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        signal.alarm(SECONDS_MAX)
        os.write(child_end, _seen(directory, truth).encode())
        os._exit(0)
    os.close(child_end)
    with os.fdopen(report_end) as report:
        said = report.read()
    _, status = os.waitpid(child, 0)
    return f"signal {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else said


def _seen(directory: Path, truth: object) -> str:
    try:
        return "right" if view(directory) == truth else "other answers"
    except IndexUnusable:
        return "unusable"
    except Exception as error:  # what is looked for
        return f"raises {type(error).__module__}.{type(error).__name__}"


def main(seeds: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        whole, damaged = Path(scratch, "whole"), Path(scratch, "damaged")
        whole.mkdir()
        make(whole)
        truth, data = view(whole), (whole / "data.mdb").read_bytes()
        for kind, damage in DAMAGE.items():
            for seed in range(seeds):
                changed = bytearray(data)
                damage(Random(seed), changed)
                shutil.rmtree(damaged, ignore_errors=True)
                damaged.mkdir()
                (damaged / "data.mdb").write_bytes(changed)
                line = {"damage": kind, "seed": seed, "outcome": outcome(damaged, truth)}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
