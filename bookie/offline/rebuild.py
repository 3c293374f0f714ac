"""Rebuilds a bookie's index from its log, which contains all data.

Crash states: (a) `index.new` is being written: the old index is untouched, and the next run removes `index.new`; (b)
the old index has been renamed to `index.old`; (c) `index.new` has been renamed to `index`; (d) `index.old` has been
removed. Between (b) and (c) there is no index and the bookie refuses to start; another run finishes the work.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ..disk.disk import OsDisk, sync_directory
from ..errors import IndexDamaged, IndexUnusable
from ..index.claims import check_before_rebuild
from ..index.index import Index
from ..index.local_ledger_state import LocalLedgerState
from ..log.format import NO_LEDGER, RecordKind
from ..log.log_replay import replay
from ..log.record_reader import position_end
from ..serving import directory
from ..serving.directory import LockedDirectory
from ..storage.replaying import apply

NEW, OLD = "index.new", "index.old"

FRAMES_PER_COMMIT = 50_000
"""Maximum number of frames in memory between two transactions."""


def rebuild_index(path: Path, on_read: Callable[[int], object] = lambda _: None) -> int:
    """Rebuilds the index of a stopped bookie; returns its number of frames. `on_read` is called with the number of
    bytes read.

    Truncates a torn tail as startup does. If the log has LOST records, the next start puts every ledger into limbo.
    Raises DataDirectoryError. Raises DamagedLog if the log itself is damaged or lacks data that the old index still
    points to (rule R6); in that case the old index is unchanged, and `salvage` has to be run first.
    """
    with closing(directory.lock(path)) as locked:
        cookie = directory.read_cookie(path)
        directory.check_part(locked.log)
        limbo_is_due = _ask_old_index(locked)
        shutil.rmtree(path / NEW, ignore_errors=True)
        (path / NEW).mkdir()
        frames = _fill(path / NEW, OsDisk(locked.log), cookie.incarnation, limbo_is_due, on_read)
        _swap(path)
        return frames


def _ask_old_index(locked: LockedDirectory) -> bool:
    """Checks the log against the old index; returns whether that index requires limbo at the next start."""
    if not locked.index.is_dir():
        return False
    try:
        index = Index(locked.index)
    except IndexUnusable:
        return False  # an unusable index is the reason for the rebuild
    try:
        check_before_rebuild(OsDisk(locked.log), index)
        return index.limbo_is_due
    except IndexDamaged:
        return False
    finally:
        index.close()


def _fill(
    target: Path,
    disk: OsDisk,
    incarnation: str,
    has_lost: bool,
    on_read: Callable[[int], object] = lambda _: None,
) -> int:
    index, states, changed = Index(target), dict[int, LocalLedgerState](), set[int]()
    frames = position = read_bytes = 0

    def state_of(ledger_id: int) -> LocalLedgerState:
        return states.setdefault(ledger_id, LocalLedgerState(ledger_id))

    def commit() -> None:
        index.begin_checkpoint()
        index.commit_checkpoint(position, [(n, _row(states[n])) for n in sorted(changed)])
        index.end_checkpoint()
        changed.clear()

    try:
        for found in replay(disk, incarnation, 0):
            ledger_id = found.record.ledger_id
            position = position_end(found)
            read_bytes += found.header.record_bytes
            if ledger_id == NO_LEDGER:
                has_lost |= found.record.kind is RecordKind.LOST
                continue
            apply(found.record, index, state_of, states.__delitem__)
            changed.add(ledger_id)
            index.apply(found.record, found.position, found.header.record_bytes)
            frames += bool(found.record.columns)
            if index.recent_frames >= FRAMES_PER_COMMIT:
                commit()
                on_read(read_bytes)
                read_bytes = 0
        commit()
        on_read(read_bytes)
        index.set_limbo_due(has_lost)
    finally:
        index.close()
    return frames


def _row(state: LocalLedgerState) -> bytes:
    """Encodes the state without its verifier, so that the bookie asks the metadata at the first write. The bookie then
    learns the verifier, and whether the ledger has been deleted, which the log does not record."""
    return replace(state, verifier=None).encode()


def _swap(path: Path) -> None:
    current = path / directory.INDEX
    if current.exists():
        shutil.rmtree(path / OLD, ignore_errors=True)
        os.rename(current, path / OLD)
    sync_directory(path / NEW)
    os.rename(path / NEW, current)
    sync_directory(path)
    shutil.rmtree(path / OLD, ignore_errors=True)
