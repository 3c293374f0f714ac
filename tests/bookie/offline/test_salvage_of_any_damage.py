"""B2, R6: whatever was damaged, and wherever a crash met the salvage, nothing whole is lost and every loss is told."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bookie.disk.disk import LogFile
from bookie.index.claims import NO_CLAIMS, Claims
from bookie.log import segment_files
from bookie.log.format import SEGMENT_HEADER, RecordKind, place_of, position_of
from bookie.log.record_reader import Found, position_end
from bookie.offline import log_salvage as salvage_module
from tests.bookie.fuzz.logs import FILES, FOUND, Files, header_is_whole, is_whole, watched_disk
from tests.bookie.fuzz.mutations import Change, changed, changes
from tests.bookie.logs import found_in, records_in
from tests.bookie.offline.salvaging import (
    END,
    FIRST,
    LOST,
    RECORD_BYTES,
    RECORDS,
    SECOND,
    THIRD,
    checkpoint_at,
    log_of,
    nothing_more_to_do,
    offset_of,
    salvaged,
    stretches_of,
)
from tests.bookie.simulated_disk import Loss, SimulatedDisk, disk_with

# --- crashes


Damage = Callable[[SimulatedDisk], None]


def damages() -> list[tuple[str, Damage, Claims]]:
    def header(disk: SimulatedDisk) -> None:
        disk.overwrite(SECOND, 0, b"?" * 200)

    def several(disk: SimulatedDisk) -> None:
        disk.overwrite(FIRST, offset_of(1) + 90, b"?")
        disk.resize(SECOND, offset_of(4) - 20)
        disk.overwrite(THIRD, offset_of(6) + 9, b"?")

    return [
        ("one record", lambda disk: disk.overwrite(THIRD, offset_of(6) + 90, b"?"), NO_CLAIMS),
        ("header and record", header, NO_CLAIMS),
        ("a segment is missing", lambda disk: disk.lose(SECOND), NO_CLAIMS),
        ("the newest is cut", lambda disk: disk.resize(THIRD, offset_of(6)), checkpoint_at(7)),
        ("the newest is missing", lambda disk: disk.lose(THIRD), checkpoint_at(7)),
        ("the newest is all zeros", lambda disk: disk.overwrite(THIRD, 0, bytes(offset_of(8))), NO_CLAIMS),
        ("bytes behind the end", lambda disk: disk.resize(FIRST, END + 100), NO_CLAIMS),
        ("several", several, checkpoint_at(3)),
    ]


class Corner:
    """A part of a disk: what is kept aside loses power together with the log. Implements `bookie.disk.disk.Disk`."""

    PREFIX = "aside/"

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk

    def create(self, name: str) -> LogFile:
        return self._disk.create(self.PREFIX + name)

    def open(self, name: str) -> LogFile:
        return self._disk.open(self.PREFIX + name)

    def names(self) -> list[str]:
        return [n.removeprefix(self.PREFIX) for n in self._disk.names() if n.startswith(self.PREFIX)]

    def remove(self, name: str) -> None:
        self._disk.remove(self.PREFIX + name)

    def sync_directory(self) -> None:
        self._disk.sync_directory()


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize(("damage", "claims"), [d[1:] for d in damages()], ids=[d[0] for d in damages()])
def test_a_salvage_that_a_crash_interrupted_is_finished_by_the_next(
    damage: Damage, claims: Claims, loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the crash left: no damaged byte is gone, and in the end every loss is said at the same places."""
    monkeypatch.setattr(salvage_module, "LOST_BYTES_MAX", RECORD_BYTES)  # stretches take several records
    calm = log_of(RECORDS, monkeypatch)
    damage(calm)
    files, operations = calm.contents(), calm.operations
    salvaged(calm, claims, Corner(calm))
    operations = calm.operations - operations
    expected = records_in(calm), stretches_of(calm)
    copies = {name: data for name, data in calm.contents().items() if name.startswith(Corner.PREFIX)}
    for operation, seed in product(range(operations), range(4)):
        disk = disk_with(files.items(), Random(seed))
        disk.power_off_before(operation)
        with pytest.raises(OSError, match="power is off"):
            salvaged(disk, claims, Corner(disk))
        disk.crash(loss)
        check_damaged_bytes_are_kept(disk, files, copies)
        salvaged(disk, claims, Corner(disk))
        assert (records_in(disk), stretches_of(disk)) == expected, (operation, seed)
        assert nothing_more_to_do(disk, claims)


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize(("damage", "claims"), [d[1:] for d in damages()], ids=[d[0] for d in damages()])
def test_what_a_salvage_did_is_on_disk_when_it_is_told(
    damage: Damage, claims: Claims, loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = log_of(RECORDS, monkeypatch)
    damage(disk)
    salvaged(disk, claims)
    done = disk.contents()
    disk.crash(loss)
    assert disk.contents() == done


def check_damaged_bytes_are_kept(disk: SimulatedDisk, files: Files, copies: Files) -> None:
    """Each stretch is as it was, in the log or in a copy."""
    there = disk.contents()
    for name, copy in copies.items():
        log_name, offset = name.removeprefix(Corner.PREFIX).rsplit(".", 1)
        span = slice(int(offset), int(offset) + len(copy))
        in_log = there.get(log_name, b"")[span] == files[log_name][span] == copy
        assert in_log or copy in [data for other, data in there.items() if other.startswith(name)], name


# --- any damage

Damages = dict[str, tuple[Change, ...] | None]
"""What has become of files: these changes, or they are gone."""

NAMES = sorted(FILES)
damaged_files = st.dictionaries(st.sampled_from(NAMES), changes() | st.none(), max_size=3)
checkpoints = st.sampled_from([None, *range(1, len(FOUND) + 1)])


def claims_before(index: int | None) -> Claims:
    """Those of an index that was brought up to date before the record of this number was written."""
    if index is None:
        return NO_CLAIMS
    reach = {}
    for found in FOUND[:index]:
        segment, end = place_of(position_end(found))
        reach[segment] = end
    checkpoint = FOUND[index].position if index < len(FOUND) else position_end(FOUND[-1])
    return Claims(checkpoint, reach)


def after(damage: Damages) -> dict[str, bytes]:
    """The files of the log, some of them changed, and some gone."""
    return {
        name: changed(data, damage.get(name) or ())
        for name, data in FILES.items()
        if damage.get(name, ()) is not None
    }


@given(damaged_files, checkpoints)
def test_whatever_was_damaged_all_that_is_whole_is_there_and_the_rest_is_called_lost(
    damage: Damages, index: int | None
) -> None:
    """B2, R6"""
    claims, files = claims_before(index), after(damage)
    assume(files)
    disk = watched_disk(files)
    salvaged(disk, claims)
    assert nothing_more_to_do(disk, claims)
    found, whole = found_in(disk), [one for one in FOUND if stands_in(files, one)]
    kept = [one for one in found if one.record.kind is not RecordKind.LOST]
    assert kept == whole[: len(kept)] or kept == without_torn_tail(whole, kept, found, claims)
    for one in FOUND:
        if one not in kept and is_known_to_be_lost(one, files, found, claims):
            assert any(gap.position <= one.position < position_end(gap) for gap in found), one.position
    assert found_in(disk, claims.checkpoint) == [one for one in found if one.position >= claims.checkpoint]
    if ends_before(claims.checkpoint, whole, files):
        assert records_in(disk, claims.checkpoint)[0] == LOST


def stands_in(files: Files, found: Found) -> bool:
    name = segment_files.name_of(found.position >> 32)
    return name in files and is_whole(found, files)


def without_torn_tail(
    whole: list[Found], kept: list[Found], found: list[Found], claims: Claims
) -> list[Found]:
    """What may be kept of the whole records: only a tail that proves nothing to have been on disk may be cut off."""
    end = position_end(found[-1]) if found else position_of(max(one.position >> 32 for one in whole), 64)
    for cut in [one for one in whole if one not in kept]:
        assert cut.position >= max(end, claims.checkpoint)
        assert cut.header.synced <= end
    return [one for one in whole if one.position < end]


def is_known_to_be_lost(one: Found, files: Files, found: list[Found], claims: Claims) -> bool:
    """Whether anything that is left tells of the record: the index, something behind it, the next segment's header."""
    segment = one.position >> 32
    following = segment_files.name_of(segment + 1)
    return (
        one.position < claims.checkpoint
        or any(other.position > one.position and other.position >> 32 == segment for other in found)
        or (following in files and header_is_whole(segment + 1, files))
    )


def ends_before(checkpoint: int, whole: list[Found], files: Files) -> bool:
    """Whether the log has lost what stood right before the checkpoint, and knows nothing of what stood behind it."""
    segment, offset = place_of(checkpoint)
    following = segment_files.name_of(segment + 1)
    if not checkpoint or (following in files and header_is_whole(segment + 1, files)):
        return False
    ends = [place_of(position_end(one))[1] for one in whole if one.position >> 32 == segment]
    return max([SEGMENT_HEADER.size, *ends]) < offset
