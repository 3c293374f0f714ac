"""A cookie that is missing from the metadata: who says so, who writes it anew, and when nobody may."""

from __future__ import annotations

from pathlib import Path

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import LedgerClient
from metadata import keys, opened_store
from tests.support.aio import run
from tests.support.cluster_status import status, why_not_whole
from tests.support.command_line import bookledger, fails_with_one_line, succeeds, told
from tests.support.waiting import until


def lose(uri: str, *lost: str) -> None:
    """Somebody deletes keys by hand."""

    async def work() -> None:
        async with opened_store(uri) as store:
            for key in lost:
                found = await store.get(key)
                assert found is not None
                await store.delete(key, found.version)

    run(work())


def refusal_of_start(uri: str, bookie: BookieProcess) -> str:
    places = (f"--metadata={uri}", f"--data={bookie.directory}", "--port=0")
    return fails_with_one_line("bookie", "run", *places)


def test_a_lost_cookie_is_named_and_written_anew(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    meta = f"--metadata={uri}"
    with bookie_processes(3, tmp_path, uri, lease_seconds=2) as bookies:
        with LedgerClient(uri) as client, client.create_ledger() as writer:
            writer.append(b"found again")
        until(lambda: status(uri)["whole"] is True)
        one = bookies[0]
        lose(uri, keys.cookie(one.bookie_id))
        assert f"a restart would fail: {one.bookie_id}; `bookledger bookie restore-cookie" in why_not_whole(
            uri
        )
        assert one.stop() == 0
        assert "absent bookies that have no cookie in the metadata: bookie-1; if" in why_not_whole(uri)
        restore = ("bookie", "restore-cookie", meta, f"--data={one.directory}")
        said = refusal_of_start(uri, one)
        assert f"`bookledger bookie restore-cookie --data {one.directory}` restores it" in said
        assert "decommissioned: the cookie was lost" in said
        line = fails_with_one_line("bookie", "format", meta, f"--data={tmp_path}/new", "--id=bookie-1")
        assert "restore-cookie --data DIR` restores the cookie; if its disk is lost for good, format" in line

        anew = told(*restore)
        assert (anew["bookie_id"], anew["restored"], anew["must_accept_loss"]) == ("bookie-1", True, False)
        one.start()
        until(lambda: status(uri)["whole"] is True)
        assert b"already has this cookie: nothing was changed" in bookledger(*restore).stdout


def test_a_bookie_that_was_decommissioned_is_not_brought_back_by_its_directory(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    meta = f"--metadata={uri}"
    with bookie_processes(4, tmp_path, uri, lease_seconds=2) as bookies:
        with LedgerClient(uri) as client, client.create_ledger() as writer:
            writer.append(b"copied elsewhere")
            on = writer.record.fragments[0].ensemble[0].bookie_id
        gone = next(one for one in bookies if one.bookie_id == on)
        assert gone.stop() == 0
        succeeds("cluster", "decommission", meta, on, "--yes", "--wait")
        said = refusal_of_start(uri, gone)
        assert f"belongs to bookie {on}, which was decommissioned at 20" in said
        assert said.endswith("format an empty directory for a new bookie")
        assert fails_with_one_line("bookie", "restore-cookie", meta, f"--data={gone.directory}") == said
        until(lambda: status(uri)["whole"] is True)


def test_a_directory_whose_newness_nobody_can_tell_serves_in_limbo(tmp_path: Path) -> None:
    """R6"""
    uri = f"sqlite://{tmp_path}/metadata.db"
    meta = f"--metadata={uri}"
    with bookie_processes(3, tmp_path, uri, lease_seconds=2) as bookies:
        with LedgerClient(uri) as client, client.create_ledger() as writer:
            writer.append(b"there")
        one = bookies[0]
        assert one.stop() == 0
        lose(uri, keys.cookie(one.bookie_id), keys.life(one.bookie_id))
        done = succeeds("bookie", "restore-cookie", meta, f"--data={one.directory}")
        assert f"bookledger bookie run --data {one.directory} --accept-loss".encode() in done
        assert "is an older copy" in refusal_of_start(uri, one)
        accepting = BookieProcess(
            one.bookie_id, one.directory, uri, lease_seconds=2, options=("--accept-loss",)
        )
        accepting.start()
        try:
            until(lambda: status(uri)["whole"] is True)
            done = succeeds("bookie", "repair", meta, one.bookie_id)
        finally:
            accepting.stop()
