"""A real bookie whose disk fails ends rather than acknowledge what may be lost, and never denies what it has (R6).

B1: it acknowledges only what was synced, never tries a failed sync again, and exits non-zero. One whose files are taken
away does so, too: test_lost_directory.py. The disk takes back what a failed sync should have saved, so whatever was
acknowledged too early is lost here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie.log.format import RECORD_MAGIC_BYTES
from bookie.wire import ReadReply, ReadRequest
from bookledger.cli.processes import BookieProcess, ChildFailed, bookie_processes
from ledgers import ClientConfig, LedgerError, LedgerRecoveryFailed
from ledgers.aio import LedgerClient
from ledgers.config import MIB
from tests.support.aio import run
from tests.support.failing_disk import INDEX, LOG, Call, FailingDisk, compiled
from tests.support.long_runs import first_then_long
from tests.support.writing import ConstantWriter, payload_of

QUICK = ClientConfig(append_seconds_max=2, append_quorum_seconds_max=2, recovery_tries_max=2)
SIZE = 500
ENTRIES = 20
IN_FLIGHT_BYTES = 16 * MIB
CHECKPOINT_BYTES = 100 * MIB
"""Less than the log that makes a checkpoint due."""

FAILED = 1
EVERY = 1_000_000
"""More calls than there are."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("failing-disk"))


@pytest.fixture
def disk(tmp_path: Path, library: Path) -> FailingDisk:
    return FailingDisk(library, tmp_path)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/metadata.db"


@pytest.fixture
def bookie(tmp_path: Path, uri: str, disk: FailingDisk) -> Iterator[BookieProcess]:
    """The only one, on that disk."""
    with bookie_processes(1, tmp_path, uri, lease_seconds=1, environment=disk.environment) as (bookie,):
        yield bookie


def has_all_on_a_good_disk(bookie: BookieProcess, ledger_id: int, confirmed: int, size: int = SIZE) -> None:
    bookie.environment = None
    bookie.start()
    run(check(bookie.metadata_uri, ledger_id, confirmed, size))


def does_not_start(bookie: BookieProcess, disk: FailingDisk) -> None:
    with pytest.raises(ChildFailed, match="Input/output error"):
        bookie.start()
    assert disk.failures == 1
    assert bookie.child.wait() == FAILED


def last_words(bookie: BookieProcess) -> str:
    """The one line that says why the bookie ended."""
    written = bookie.log.read_text()
    assert "Traceback" not in written, written
    (line,) = [line for line in written.splitlines() if line.startswith("bookledger: ")]
    return line


async def write_until_it_fails(uri: str, size: int = SIZE) -> tuple[int, int]:
    """(ledger, entries that were confirmed) of a writer that meets the failure."""
    async with LedgerClient(uri, config=QUICK) as client:
        handle = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        writer = ConstantWriter(handle, size, in_flight=min(200, IN_FLIGHT_BYTES // size))
        with pytest.raises(BaseExceptionGroup) as ended:
            await writer.run()
        assert ended.value.subgroup(LedgerError) is not None
        await handle.abandon()
        return handle.ledger_id, writer.confirmed


async def write(uri: str, count: int, copies: int = 1) -> int:
    """A ledger of so many confirmed entries, each a record of its own, which nobody has closed."""
    async with LedgerClient(uri, config=QUICK) as client:
        handle = await client.create_ledger(ensemble_size=copies, write_quorum=copies, ack_quorum=copies)
        for entry_id in range(count):
            await handle.append(payload_of(entry_id, SIZE))
        await handle.abandon()
        return handle.ledger_id


async def check(uri: str, ledger_id: int, confirmed: int, size: int = SIZE) -> None:
    """Everything confirmed is there; what comes behind it was sent at least."""
    async with LedgerClient(uri, config=QUICK) as client:
        reader = await client.open_ledger(ledger_id)
        assert reader.last_add_confirmed >= confirmed - 1, "a confirmed entry is lost"
        expected = 0
        async for entry in reader.read():
            assert (entry.entry_id, entry.payload) == (expected, payload_of(expected, size))
            expected += 1
        assert expected == reader.last_add_confirmed + 1


@pytest.mark.parametrize(
    ("call", "good"),
    first_then_long(
        [
            (Call.SYNC, 1),
            (Call.WRITE, 4),
            (Call.SYNC, 0),
            (Call.WRITE, 0),
            (Call.SYNC, 40),
            (Call.WRITE, 40),
        ],
        2,
        in_rows=True,
    ),
)
def test_B1_a_bookie_whose_sync_or_write_fails_ends_and_has_all_that_it_acknowledged(
    bookie: BookieProcess, uri: str, disk: FailingDisk, call: Call, good: int
) -> None:
    """The sync is not tried again, though it would succeed, and nothing is acknowledged behind it. The writes are
    of space, of the first record, and of one in the middle."""
    disk.fail(call, LOG, good=good)
    ledger_id, confirmed = run(write_until_it_fails(uri))
    assert disk.failures == 1
    assert bookie.child.wait() == FAILED
    assert "the log could not be written or synced: [Errno 5]" in last_words(bookie)
    assert bool(confirmed) == bool(good) or call is Call.WRITE
    has_all_on_a_good_disk(bookie, ledger_id, confirmed)


@pytest.mark.parametrize(
    ("call", "files", "good"),
    first_then_long(
        [(Call.SYNC, LOG, 0), (Call.WRITE, INDEX, 2), (Call.SYNC, INDEX, 0), (Call.WRITE, INDEX, 0)],
        2,
        in_rows=True,
    ),
)
def test_B1_a_bookie_that_cannot_finish_its_files_at_a_stop_says_so_and_loses_nothing(
    bookie: BookieProcess, uri: str, disk: FailingDisk, call: Call, files: str, good: int
) -> None:
    """Sealing the segment, and the checkpoint: the sync of its pages, a page, and the one that makes them count."""
    ledger_id = run(write(uri, ENTRIES))
    disk.fail(call, files, good=good)
    exit_code = bookie.stop()
    assert disk.failures == 1
    assert exit_code == FAILED
    assert "Input/output error" in last_words(bookie)
    has_all_on_a_good_disk(bookie, ledger_id, ENTRIES)


@pytest.mark.parametrize(("call", "good"), first_then_long([(Call.SYNC, 0), (Call.WRITE, 2)], in_rows=True))
def test_B1_a_bookie_whose_checkpoint_fails_ends_and_has_all_that_it_acknowledged(
    bookie: BookieProcess, uri: str, disk: FailingDisk, call: Call, good: int
) -> None:
    """Under way, after so much log that one is due; what the log has is served whatever became of the index."""
    disk.fail(call, INDEX, good=good)
    ledger_id, confirmed = run(write_until_it_fails(uri, size=MIB), timeout_seconds=120)
    assert disk.failures == 1
    assert confirmed * MIB > CHECKPOINT_BYTES
    assert bookie.child.wait() == FAILED
    assert "the index cannot be written" in last_words(bookie)
    has_all_on_a_good_disk(bookie, ledger_id, confirmed, size=MIB)


def offset_in_segment(data: bytes, where: str) -> int:
    """A byte of a segment that a crash left with zeros at its end."""
    last_record = data.rfind(RECORD_MAGIC_BYTES)
    return {"segment header": 0, "last header": last_record, "last body": len(data.rstrip(b"\0")) - 1}[where]


@pytest.mark.parametrize("where", first_then_long(["last header", "segment header", "last body"]))
def test_a_log_that_cannot_be_read_at_the_start_is_no_torn_tail_to_be_cut(
    bookie: BookieProcess, uri: str, disk: FailingDisk, where: str
) -> None:
    """Also where it could be read a moment later; nothing is lost."""
    ledger_id = run(write(uri, ENTRIES))
    bookie.kill()
    segment = (bookie.directory / "log" / "00000000.log").read_bytes()
    disk.fail(Call.READ, LOG, at=offset_in_segment(segment, where))
    does_not_start(bookie, disk)
    has_all_on_a_good_disk(bookie, ledger_id, ENTRIES)


@pytest.mark.parametrize(
    ("call", "files", "good"),
    first_then_long(
        [(Call.SYNC, LOG, 0), (Call.WRITE, INDEX, 0), (Call.SYNC, LOG, 1), (Call.SYNC, INDEX, 0)],
        2,
        in_rows=True,
    ),
)
def test_B1_a_bookie_that_cannot_finish_its_files_at_a_start_does_not_start_and_loses_nothing(
    bookie: BookieProcess, uri: str, disk: FailingDisk, call: Call, files: str, good: int
) -> None:
    """The end of the log, the segment that follows, the checkpoint."""
    ledger_id = run(write(uri, ENTRIES))
    bookie.kill()
    disk.fail(call, files, good=good)
    does_not_start(bookie, disk)
    has_all_on_a_good_disk(bookie, ledger_id, ENTRIES)


def test_a_fence_whose_sync_fails_is_not_answered(bookie: BookieProcess, uri: str, disk: FailingDisk) -> None:
    ledger_id = run(write(uri, ENTRIES))
    disk.fail(Call.SYNC, LOG)
    with pytest.raises(LedgerRecoveryFailed):
        run(check(uri, ledger_id, ENTRIES))
    assert disk.failures == 1
    assert bookie.child.wait() == FAILED
    has_all_on_a_good_disk(bookie, ledger_id, ENTRIES)


async def asked(client: LedgerClient, ledger_id: int, bookie_id: str, last: int) -> ReadReply:
    """What this bookie says of the ledger's entries, in one page."""
    record = await client.describe_ledger(ledger_id)
    (bookie,) = (one for one in record.fragments[0].ensemble if one.bookie_id == bookie_id)
    request = ReadRequest(bookie.incarnation, ledger_id, 0, last, 1 << 20, identity=record.identity)
    return await (await client._connected()).bookies.read(bookie, request)


@pytest.mark.parametrize("where", first_then_long(["last body", "last header"]))
async def test_an_entry_that_cannot_be_read_is_damaged_to_its_bookie_and_served_by_the_next(
    tmp_path: Path, uri: str, disk: FailingDisk, where: str
) -> None:
    """Never "no such entry"; and the bookie goes on."""
    last = ENTRIES - 1
    with bookie_processes(2, tmp_path, uri, environment=disk.environment) as (bookie, _):
        ledger_id = await write(uri, ENTRIES, copies=2)
        async with LedgerClient(uri, config=QUICK) as client:
            file = bookie.directory / "log" / "00000000.log"
            disk.fail(Call.READ, str(file), bad=EVERY, at=offset_in_segment(file.read_bytes(), where))
            reply = await asked(client, ledger_id, bookie.bookie_id, last)
            assert disk.failures
            assert list(reply.columns.ids) == list(range(last))
            assert [(one.first_entry, one.last_entry) for one in reply.damaged] == [(last, last)]
            await check(uri, ledger_id, ENTRIES)
            disk.fail(Call.READ, LOG, bad=0)
            healed = await asked(client, ledger_id, bookie.bookie_id, last)
            assert (list(healed.columns.ids), healed.damaged) == (list(range(ENTRIES)), ())
        assert bookie.child.is_alive


def test_a_recovery_that_cannot_read_the_only_copy_fails_rather_than_close_before_it(
    bookie: BookieProcess, uri: str, disk: FailingDisk
) -> None:
    """R6, R3: the ledger stays in recovery, and is recovered whole once the disk can be read."""
    ledger_id = run(write(uri, ENTRIES))
    disk.fail(Call.READ, LOG, bad=EVERY)
    with pytest.raises(LedgerRecoveryFailed):
        run(check(uri, ledger_id, ENTRIES))
    assert disk.failures
    disk.fail(Call.READ, LOG, bad=0)
    run(check(uri, ledger_id, ENTRIES))
    assert bookie.child.is_alive
