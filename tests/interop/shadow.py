"""The files a JournalNode would have for what an acceptor holds: their names, and what is in the small ones.

Tests of Hadoop's look at names alone; segments are empty files here.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from metadata.records.journal_record import FinalizedSegment, JournalState, JournalStorage
from qjm_compat.transfer.files.names import finalized_name, in_progress_name

_NUMBERED = re.compile(r"(?:edits_|edits_inprogress_|paxos/)(\d+)")


@dataclass
class MovedAside:
    """What a JournalNode keeps under another name, of which an acceptor has nothing left."""

    emptied: set[int] = field(default_factory=set)
    discarded: dict[int, int | None] = field(default_factory=dict)

    def note(self, before: JournalState, after: JournalState, finalized: Iterable[FinalizedSegment]) -> None:
        """One change of the state; `finalized` is what the journal had besides it before."""
        was = {s.start_txid: s for s in before.segments}
        now = {s.start_txid for s in after.segments}
        if after.dropped != before.dropped:
            self.discarded |= {
                f.start_txid: f.end_txid for f in before.finalized(finalized).values() if not after.shows(f)
            }
            self.discarded |= {
                s.start_txid: None for s in was.values() if s.start_txid not in now and not s.finalized
            }
        else:
            self.emptied |= {start for start, s in was.items() if start not in now and s.end_txid is None}

    def names(self) -> list[str]:
        empty = [f"{in_progress_name(start)}.empty" for start in self.emptied]
        trash = [f"{_name(start, end)}.trash" for start, end in self.discarded.items()]
        return empty + trash


def draw(
    directory: Path,
    state: JournalState,
    finalized: Iterable[FinalizedSegment],
    committed_txid: int | None,
    aside: MovedAside,
) -> None:
    """Makes the directory look like that of the journal. What a test put there stays until it would be purged."""
    records = list(finalized)
    wanted = _journal(directory / "current", state, records, committed_txid)
    wanted |= {directory / "current" / name: b"" for name in aside.names()}
    before = state.previous
    if before is not None:
        upgrading = state.storage is None
        kept = directory / ("previous.tmp" if upgrading else "previous")
        wanted |= _journal(kept, before, records, before.committed_txid)
    for unknown in {directory / "previous", directory / "previous.tmp"} - {path.parent for path in wanted}:
        shutil.rmtree(unknown, ignore_errors=True)
    _remove_purged(directory / "current", state.purged_below, wanted)
    _write(wanted)


def _journal(
    folder: Path, state: JournalState, records: list[FinalizedSegment], committed_txid: int | None
) -> dict[Path, bytes]:
    files: dict[str, bytes] = {"last-promised-epoch": b"%d\n" % state.last_promised_epoch}
    if state.last_writer_epoch:
        files["last-writer-epoch"] = b"%d\n" % state.last_writer_epoch
    files["committed-txid"] = (
        b"" if committed_txid is None else committed_txid.to_bytes(8, "big", signed=True)
    )
    if state.storage is not None:
        files["VERSION"] = _version(state.storage)
    files |= {finalized_name(f.start_txid, f.end_txid): b"" for f in state.finalized(records).values()}
    files |= {in_progress_name(s.start_txid): b"" for s in state.segments if not s.finalized}
    files |= {f"paxos/{accepted.start_txid}": b"" for accepted in state.accepted}
    (folder / "paxos").mkdir(parents=True, exist_ok=True)
    return {folder / name: content for name, content in files.items()}


def _remove_purged(current: Path, purged_below: int, wanted: Mapping[Path, bytes]) -> None:
    """Of what is drawn: all that is no more. Of what is not: what a JournalNode purges with its transactions."""
    drawn_file = current / ".drawn"
    drawn = set(drawn_file.read_text().split("\n")) if drawn_file.exists() else set()
    for path in [path for path in current.rglob("*") if path.is_file() and path not in wanted]:
        name = str(path.relative_to(current))
        number = _NUMBERED.match(name)
        if name in drawn or (number is not None and int(number[1]) < purged_below):
            path.unlink(missing_ok=True)
    current.mkdir(parents=True, exist_ok=True)
    drawn_file.write_text(
        "\n".join(str(path.relative_to(current)) for path in wanted if current in path.parents)
    )


def _write(wanted: Mapping[Path, bytes]) -> None:
    for path, content in wanted.items():
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)


def _name(start: int, end: int | None) -> str:
    return in_progress_name(start) if end is None else finalized_name(start, end)


def _version(storage: JournalStorage) -> bytes:
    lines = (
        f"namespaceID={storage.namespace_id}",
        "storageType=JOURNAL_NODE",
        f"cTime={storage.c_time}",
        f"clusterID={storage.cluster_id}",
        f"layoutVersion={storage.layout_version}",
    )
    return "".join(f"{line}\n" for line in lines).encode()
