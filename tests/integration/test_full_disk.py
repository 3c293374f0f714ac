"""A bookie on a disk that fills up: clear errors, nothing confirmed lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgers import AppendTimeout, ClientConfig, LedgerRecoveryFailed
from ledgers.aio import LedgerClient
from ledgers.cli.processes import BookieProcess, bookie_processes
from tests.support.aio import run
from tests.support.writing import payload_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")

QUICK = ClientConfig(append_quorum_seconds_max=2)
SIZE = 1000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "none", str(path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def make_room(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)


def test_a_full_disk_ends_writer_and_recovery_clearly_and_loses_nothing_confirmed(
    tmp_path: Path, small_disk: Path
) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"

    async def fill(client: LedgerClient) -> tuple[int, int]:
        writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        confirmed = 0
        with pytest.raises(AppendTimeout, match="No space left on device"):
            while True:
                futures = [await writer.append_async(payload_of(confirmed + n, SIZE)) for n in range(500)]
                for future in futures:
                    await future
                    confirmed += 1
        return writer.ledger_id, confirmed

    async def scenario(bookie: BookieProcess) -> None:
        async with LedgerClient(uri, config=QUICK) as client:
            ledger_id, confirmed = await fill(client)
            assert bookie.child.is_alive, "a full disk is no reason to die"
            with pytest.raises(LedgerRecoveryFailed, match="No space left on device"):
                await client.open_ledger(ledger_id)
        bookie.stop()
        make_room(small_disk)
        bookie.start()
        async with LedgerClient(uri, config=QUICK) as client:
            reader = await client.open_ledger(ledger_id)
            assert reader.last_add_confirmed >= confirmed - 1
            async for entry in reader.read():
                assert entry.payload == payload_of(entry.entry_id, SIZE)

    with bookie_processes(1, small_disk, uri) as (bookie,):
        run(scenario(bookie), timeout_seconds=60)
