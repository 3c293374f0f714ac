"""Directories into journals and back, on real bookies: what is written, what is compared, what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metadata import open_store
from qjm_compat.aio import DEFAULT_ACCEPTOR
from qjm_compat.config import AcceptorConfig
from qjm_compat.edits import encode_frame, segment_bytes
from qjm_compat.errors import QuorumFailed, SegmentUnreadable, StaleEpoch
from qjm_compat.requests import NamespaceInfo
from qjm_compat.transfer.checking.fsck import check_journal
from qjm_compat.transfer.errors import TransferRefused
from qjm_compat.transfer.files.names import LeftOut, finalized_name, in_progress_name
from qjm_compat.transfer.inspection import inspector
from qjm_compat.transfer.journal_import import ImportOptions, import_directory
from tests.qjm_compat.transfer.made_directories import (
    CLUSTER_ID,
    LAYOUT,
    NAMESPACE_ID,
    finalized,
    frames,
    in_progress,
    made_directory,
    version,
)
from tests.qjm_compat.transfer.one_journal import Place, on_a_journal

NAMESPACE = NamespaceInfo(NAMESPACE_ID, CLUSTER_ID, layout_version=LAYOUT)
ACCEPTORS = ((DEFAULT_ACCEPTOR,), ("a", "b", "c"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("edits")}


@pytest.mark.parametrize("names", ACCEPTORS, ids=["one acceptor", "three acceptors"])
async def test_what_is_imported_is_exported_byte_for_byte(tmp_path: Path, names: tuple[str, ...]) -> None:
    current = made_directory(tmp_path / "name")
    (current / "edits_inprogress_31.empty").write_bytes(b"\xff" * 1024)
    async with on_a_journal(tmp_path, names) as place:
        done = await place.bring(tmp_path / "name")
        assert (done.formatted, done.segments, done.ops, done.last_txid) == (True, 3, 30, 30)
        assert done.bytes == len(frames(1, 30))
        assert done.left_out == [LeftOut("edits_inprogress_31.empty", "moved aside")]
        assert await place.segments() == [(1, 10, False), (11, 20, False), (21, 30, False)]
        async with place.manager() as manager:
            assert (await manager.namespace()).storage == NAMESPACE.storage
        await place.check()
        exported = await place.fetch(tmp_path / "out")
        assert (exported.segments, exported.ops, exported.segments_there) == (3, 30, 0)
    expected = contents(current)
    del expected["edits_inprogress_31.empty"], expected[in_progress_name(21)]
    expected[finalized_name(21, 30)] = segment_bytes(LAYOUT, [frames(21, 30)])
    assert contents(tmp_path / "out") == expected
    assert (tmp_path / "out" / "seen_txid").read_text() == "21\n"


async def test_an_import_that_is_repeated_compares_and_writes_nothing(tmp_path: Path, place: Place) -> None:
    current = made_directory(tmp_path / "name")
    await place.bring(current)
    epoch = await place.promised()
    again = await place.bring(current)
    assert (again.segments, again.segments_there, again.ops_there) == (0, 3, 30)
    assert await place.promised() == epoch, "it had nothing to write, and fenced nobody"
    (current / in_progress_name(21)).unlink()
    finalized(current, 21, 30)
    finalized(current, 31, 40)
    more = await place.bring(current)
    assert (more.segments, more.ops, more.segments_there, more.last_txid) == (1, 10, 3, 40)


async def test_other_edits_under_the_same_txids_are_refused(tmp_path: Path, place: Place) -> None:
    current = made_directory(tmp_path / "name")
    await place.bring(current)
    other = b"".join(encode_frame(24, txid, b"") for txid in range(11, 21))
    (current / finalized_name(11, 20)).write_bytes(segment_bytes(LAYOUT, [other]))
    assert "the journal has different edits at txids 11" in await place.refused(current)
    finalized(current, 11, 20)
    (current / finalized_name(11, 20)).rename(current / "kept")
    (current / "kept").rename(current / finalized_name(11, 20))
    (current / finalized_name(11, 20)).write_bytes(segment_bytes(LAYOUT - 1, [frames(11, 20)]))
    assert "has layout -64, and the journal's segment 11 has -63" in await place.refused(current)
    (current / finalized_name(11, 20)).unlink()
    finalized(current, 11, 25)
    in_progress(current, 26, 30)
    (current / in_progress_name(21)).unlink()
    assert "does not end at the same txid as a segment of the journal" in await place.refused(current)


async def test_a_directory_of_another_namespace_is_refused(tmp_path: Path, place: Place) -> None:
    current = made_directory(tmp_path / "name")
    await place.bring(current)
    version(current, namespace_id=999)
    assert "namespace id 999, but the journal has 12345" in await place.refused(current)
    version(current, layout_version=-64)
    assert "layout version -64, but the journal has -63" in await place.refused(current)
    (current / "VERSION").unlink()
    assert (await place.bring(current)).segments_there == 3


async def test_a_directory_that_is_damaged_is_refused_and_what_was_before_it_is_whole(
    tmp_path: Path, place: Place
) -> None:
    current = made_directory(tmp_path / "name")
    path = current / finalized_name(11, 20)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert "is damaged at offset" in await place.refused(current)
    assert await place.segments() == [(1, 10, False)]
    path.write_bytes(segment_bytes(-300, [frames(11, 20)]))
    assert "claims layout -300" in await place.refused(current)
    finalized(current, 11, 20)
    done = await place.bring(current)
    assert (done.segments, done.segments_there) == (2, 1)
    await place.check()


async def test_gaps_are_refused_before_anything_is_written_unless_they_are_allowed(
    tmp_path: Path, place: Place
) -> None:
    current = made_directory(tmp_path / "name")
    (current / finalized_name(11, 20)).unlink()
    assert "txids 11 to 20 are missing" in await place.refused(current)
    async with place.manager() as manager:
        assert not await manager.is_formatted()
    assert (await place.bring(current, allow_gaps=True)).segments == 2
    assert await place.segments() == [(1, 10, False), (21, 30, False)]
    async with place.inspector() as seen:
        found = await check_journal(seen)
    assert [str(problem) for problem in found.problems] == ["journal: txids 11 to 20 are missing"]
    async with place.manager() as manager:
        with pytest.raises(SegmentUnreadable, match="txids 11 to 20 are missing"):
            await manager.select_input_streams()
        assert len(await manager.select_input_streams(21)) == 1


async def test_a_gap_is_not_exported_as_if_there_were_none(tmp_path: Path, place: Place) -> None:
    current, copy = made_directory(tmp_path / "name"), tmp_path / "copy"
    (current / finalized_name(11, 20)).unlink()
    await place.bring(current, allow_gaps=True)
    with pytest.raises(SegmentUnreadable, match=r"txids 11 to 20 are missing: .*read from txid 21 on"):
        await place.fetch(copy)
    assert sorted(copy.iterdir()) == []
    assert (await place.fetch(copy, from_txid=21)).segments == 1
    done = await place.fetch(copy, allow_gaps=True)
    assert (done.segments, done.segments_there, done.last_txid) == (1, 1, 30)


async def test_files_before_a_txid_can_be_left_out(tmp_path: Path, place: Place) -> None:
    current = made_directory(tmp_path / "name")
    await place.bring(current, from_txid=15)
    assert await place.segments() == [(11, 20, False), (21, 30, False)]
    assert "contains edits before the journal's end" in await place.refused(current)


async def test_a_segment_in_progress_may_be_left_so_and_goes_on_later(tmp_path: Path, place: Place) -> None:
    current = made_directory(tmp_path / "name")
    done = await place.bring(current, finalize=False)
    assert done.left_in_progress == 21
    assert await place.segments() == [(1, 10, False), (11, 20, False), (21, 30, True)]
    assert (await place.bring(current, finalize=False)).segments_there == 3
    assert "take over if it is dead" in await place.refused(current)
    in_progress(current, 21, 33)
    done = await place.bring(current, take_over=True)
    assert (done.segments, done.ops, done.ops_there) == (1, 3, 30)
    assert done.notes == [
        "segment 21 was ended at txid 30",
        "segment 31 continues an interrupted import",
    ]
    assert await place.segments() == [(1, 10, False), (11, 20, False), (21, 30, False), (31, 33, False)]
    assert (await place.bring(current)).segments_there == 3
    await place.check()


async def test_what_a_name_node_adds_meanwhile_is_left_for_the_next_import(
    tmp_path: Path, place: Place
) -> None:
    current = made_directory(tmp_path / "name")

    def grow(_: int) -> None:
        in_progress(current, 21, 35)

    async with place.inspector() as inspector, place.manager() as manager:
        done = await import_directory(manager, inspector, current, ImportOptions(), on_bytes=grow)
    assert (done.ops, done.last_txid) == (30, 30)
    assert (await place.bring(current)).ops == 5
    assert await place.segments() == [(1, 10, False), (11, 20, False), (21, 30, False), (31, 35, False)]


async def test_a_torn_tail_is_left_out_and_told(tmp_path: Path, place: Place) -> None:
    current = made_directory(tmp_path / "name")
    in_progress(current, 21, 30, torn=frames(31, 31)[:-2])
    done = await place.bring(current)
    assert (done.last_txid, done.ops) == (30, 30)
    (note,) = done.notes
    assert "edits_inprogress_0000000000000000021 ends with txid 30: from offset" in note


async def test_a_live_writer_is_fenced_only_on_demand(tmp_path: Path, place: Place) -> None:
    current = made_directory(tmp_path / "name")
    async with place.manager() as writer:
        await writer.format(NAMESPACE)
        await writer.recover_unfinalized_segments()
        out = await writer.start_log_segment(1)
        assert "segment 1 at acceptor main, epoch 1, is in progress" in await place.refused(current)
        out.write_raw(frames(1, 5), 5)
        out.set_ready_to_flush()
        assert await out.flush() == 5, "nothing has disturbed it"
        done = await place.bring(current, take_over=True)
        assert (done.ops, done.ops_there) == (25, 5)
        out.write_raw(frames(6, 6), 1)
        out.set_ready_to_flush()
        with pytest.raises(QuorumFailed) as failure:
            await out.flush()
        assert [type(error) for error in failure.value.errors.values()] == [StaleEpoch]


async def test_an_acceptor_that_takes_no_segments_is_told_of_and_does_not_hinder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspector, "LAGGARD_SECONDS_MAX", 0.1)
    current = made_directory(tmp_path / "name")
    lonely = f"sqlite://{tmp_path}/no-bookies.db"
    async with on_a_journal(tmp_path, ("a", "b", "c")) as place:
        store = await open_store(lonely, create=True)
        await store.close()
        place.acceptors[2] = AcceptorConfig("c", lonely)
        done = await place.bring(current)
        assert (done.segments, done.notes) == (
            3,
            ["acceptor c lacks segments: it was unavailable, or too slow"],
        )
        async with place.inspector() as seen:
            found = await check_journal(seen, orphan_age_seconds=0)
        (problem,) = map(str, found.problems)
        assert problem.startswith(
            "3 segments, 1-10 to 21-30: acceptor c does not have them finalized: with one more"
        )


async def test_large_segments_go_in_batches_that_are_pipelined(tmp_path: Path) -> None:
    current = tmp_path / "current"
    current.mkdir()
    version(current)
    path = finalized(current, 1, 3000, path_bytes=4000)  # 12 MB: more than may wait for an acceptor
    async with on_a_journal(tmp_path) as place:
        done = await place.bring(current)
        assert (done.segments, done.ops) == (1, 3000)
        async with place.manager() as manager:
            (stream,) = await manager.select_input_streams(1)
            sizes = [len(batch.records) async for batch in stream.batches()]
        assert len(sizes) > 20 and max(sizes) <= 512 * 1024
        await place.fetch(tmp_path / "out")
    assert contents(tmp_path / "out") == {path.name: path.read_bytes()}


async def test_an_export_goes_on_with_what_is_there_and_overwrites_nothing_else(tmp_path: Path) -> None:
    current, out = made_directory(tmp_path / "name"), tmp_path / "out"
    async with on_a_journal(tmp_path) as place:
        await place.bring(current, finalize=False)
        assert (await place.fetch(out)).segments == 2
        assert set(contents(out)) == {finalized_name(1, 10), finalized_name(11, 20)}
        first = await place.fetch(out, from_txid=15, in_progress=True)
        assert (first.segments, first.segments_there) == (1, 1)
        unfinished = out / in_progress_name(21)
        ours = segment_bytes(LAYOUT, [frames(21, 30)])
        assert unfinished.read_bytes() == ours
        unfinished.write_bytes(segment_bytes(LAYOUT, [frames(21, 31)]))
        with pytest.raises(TransferRefused, match="does not have"):
            await place.fetch(out, from_txid=15, in_progress=True)
        assert unfinished.read_bytes() == segment_bytes(LAYOUT, [frames(21, 31)])
        unfinished.write_bytes(ours)
        in_progress(current, 21, 35)
        await place.bring(current, take_over=True)
        assert (await place.fetch(out)).segments == 2
        assert set(contents(out)) == {
            finalized_name(*ends) for ends in ((1, 10), (11, 20), (21, 30), (31, 35))
        }
        padded = out / finalized_name(1, 10)
        padded.write_bytes(padded.read_bytes() + b"\xff" * 5000)
        assert (await place.fetch(out)).segments_there == 4
        await _refusals(place, out)
    assert (out / "seen_txid").read_text() == "31\n"


async def _refusals(place: Place, out: Path) -> None:
    """Whatever else stands in the directory, the export neither overwrites nor contradicts it."""
    for name, content, said in (
        (
            finalized_name(11, 20),
            segment_bytes(LAYOUT, [frames(11, 19)]),
            "edits that differ from the journal's",
        ),
        (
            finalized_name(11, 20),
            segment_bytes(LAYOUT, [frames(11, 21)]),
            "edits that differ from the journal's",
        ),
        (in_progress_name(21), segment_bytes(LAYOUT, [frames(21, 31)]), "does not have"),
        (finalized_name(5, 15), b"", "has some of the txids 1 to 10"),
        (in_progress_name(25), b"", "has some of the txids 21 to 30"),
    ):
        path = out / name
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(content)
        with pytest.raises(TransferRefused, match=said):
            await place.fetch(out)
        assert path.read_bytes() == content
        path.unlink() if before is None else path.write_bytes(before)


async def test_a_file_is_on_disk_before_it_gets_its_name_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls are made, and written down beside it."""
    calls: list[str] = []
    fdatasync, fsync, rename = os.fdatasync, os.fsync, Path.rename

    def noted(what: str, descriptor: int) -> int:
        calls.append(f"{what} {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        return descriptor

    def noted_rename(path: Path, target: Path) -> Path:
        calls.append(f"name {target.name}")
        return rename(path, target)

    current = tmp_path / "current"
    current.mkdir()
    version(current)
    finalized(current, 1, 10)
    async with on_a_journal(tmp_path) as place:
        await place.bring(current)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", lambda fd: fdatasync(noted("sync", fd)))
            patch.setattr(os, "fsync", lambda fd: fsync(noted("sync", fd)))
            patch.setattr(Path, "rename", noted_rename)
            await place.fetch(tmp_path / "out")
    name = finalized_name(1, 10)
    ours = [call for call in calls if call.split()[1].startswith(("edits", "seen_txid", "out"))]
    assert ours == [
        f"sync {name}.tmp",
        f"name {name}",
        "sync out",
        "sync seen_txid.tmp",
        "name seen_txid",
        "sync out",
    ]


async def test_seen_txid_never_goes_back(tmp_path: Path) -> None:
    current, out = made_directory(tmp_path / "name"), tmp_path / "out"
    out.mkdir()
    (out / "seen_txid").write_text("500\n")
    async with on_a_journal(tmp_path) as place:
        await place.bring(current)
        await place.fetch(out)
    assert (out / "seen_txid").read_text() == "500\n"
    assert sorted(path.name for path in out.iterdir() if path.suffix == ".tmp") == []


async def test_a_seen_txid_that_is_none_is_told_before_anything_is_written(tmp_path: Path) -> None:
    current, out = made_directory(tmp_path / "name"), tmp_path / "out"
    out.mkdir()
    (out / "seen_txid").write_text("garbage\n")
    async with on_a_journal(tmp_path) as place:
        await place.bring(current)
        with pytest.raises(
            TransferRefused, match=r"out/seen_txid does not contain a txid: .*; remove it, and the export"
        ):
            await place.fetch(out)
        assert contents(out) == {}
        (out / "seen_txid").unlink()
        assert (await place.fetch(out)).segments == 3
    assert (out / "seen_txid").read_text() == "21\n"


async def test_a_pipe_that_is_named_like_a_segment_is_refused_and_not_waited_for(
    tmp_path: Path, place: Place
) -> None:
    current, out = made_directory(tmp_path / "name"), tmp_path / "out"
    out.mkdir()
    os.mkfifo(current / finalized_name(31, 40))
    os.mkfifo(out / finalized_name(11, 20))
    assert "0000031-0000000000000000040 is not a regular file" in await place.refused(current)
    (current / finalized_name(31, 40)).unlink()
    await place.bring(current)
    with pytest.raises(TransferRefused, match="is not a regular file"):
        await place.fetch(out)
    (out / finalized_name(11, 20)).unlink()
    os.mkfifo(out / "seen_txid")
    with pytest.raises(TransferRefused, match="seen_txid is not a regular file"):
        await place.fetch(out)
