"""Making a bookie's index anew from its log, which has everything.

Crash states: (a) `index.new` is being made: the old index is untouched, and `index.new` is removed by the
next run; (b) the old index is renamed to `index.old`; (c) `index.new` is renamed to `index`; (d) `index.old` is
removed. Between (b) and (c) there is no index and the bookie refuses to start; running this again goes on.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from . import directory
from .core import remember
from .disk import OsDisk, sync_directory
from .index import Index, place_of_frame
from .ledger_state import LedgerState
from .log.replay import position_end, replay

NEW, OLD = "index.new", "index.old"

FRAMES_PER_COMMIT = 50_000
"""Bounds what is held in memory between two transactions."""


def rebuild_index(path: Path) -> int:
    """Makes the index anew; returns the number of frames in it. The bookie must not run.

    Cuts a torn tail as a start does. Raises DataDirectoryError, and DamagedLog where the log itself is damaged;
    then the old index stays as it was.
    """
    locked = directory.lock(path)
    try:
        cookie = directory.read_cookie(path)
        shutil.rmtree(path / NEW, ignore_errors=True)
        (path / NEW).mkdir()
        frames = _fill(path / NEW, OsDisk(locked.log), cookie.incarnation)
        _swap(path)
        return frames
    finally:
        locked.close()


def _fill(target: Path, disk: OsDisk, incarnation: str) -> int:
    index, states, changed = Index(target), dict[int, LedgerState](), set[int]()
    frames = position = 0

    def commit() -> None:
        index.begin_checkpoint()
        index.commit_checkpoint(position, [(n, states[n].encode()) for n in sorted(changed)])
        index.end_checkpoint()
        changed.clear()

    try:
        for found in replay(disk, incarnation, 0):
            ledger_id = found.record.ledger_id
            remember(states.setdefault(ledger_id, LedgerState(ledger_id)), found.record)
            changed.add(ledger_id)
            place = place_of_frame(found.record.columns, found.position, found.header.record_bytes)
            if place is not None:
                index.add(ledger_id, place)
                frames += 1
            position = position_end(found)
            if index.recent_frames >= FRAMES_PER_COMMIT:
                commit()
        commit()
    finally:
        index.close()
    return frames


def _swap(path: Path) -> None:
    current = path / directory.INDEX
    if current.exists():
        shutil.rmtree(path / OLD, ignore_errors=True)
        os.rename(current, path / OLD)
    sync_directory(path / NEW)
    os.rename(path / NEW, current)
    sync_directory(path)
    shutil.rmtree(path / OLD, ignore_errors=True)
