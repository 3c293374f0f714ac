"""`bookledger journal sync`, and what JournalNodes do by themselves, on bookies in processes of their own."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from ledgers.aio import LedgerClient
from qjm_compat import AcceptorConfig
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.transfer.inspection.inspector import JournalInspector
from tests.qjm_compat.journals import JOURNAL, NAMESPACE, frames, write, write_segment
from tests.support.aio import run, until_true
from tests.support.command_line import succeeds
from tests.support.journal_node_daemons import journal_nodes, qjournal
from tests.support.journals_apart import CLIENT, CONFIG, Apart, three_apart
from tests.support.stopping import started, stopped


async def written_while_c_was_away(apart: Apart, edits: int, path_bytes: int) -> None:
    """Segment 1 is everywhere, and c lacks the next one."""
    async with apart.manager() as writer:
        await writer.recover_unfinalized_segments()
        await write_segment(writer, 1, 10)
        await apart.everywhere(1)
        apart.bookies["c"].kill()
        async with await writer.start_log_segment(11) as out:
            out.write_raw(frames(11, edits, path_bytes=path_bytes), edits)
            out.set_ready_to_flush()
            await out.flush()
        await writer.finalize_log_segment(11, 10 + edits)
        apart.bookies["c"].start()


async def read_at(apart: Apart, name: str, start_txid: int) -> bytes:
    """What one acceptor gives of a segment."""
    acceptors = [AcceptorConfig(name, apart.uris[name])]
    async with QuorumJournalManager(
        apart.uris[name], JOURNAL, acceptors=acceptors, config=CONFIG, client_config=CLIENT
    ) as reader:
        for stream in await reader.select_input_streams(start_txid):
            if stream.first_txid == start_txid:
                return b"".join([bytes(batch.records) async for batch in stream.batches()])
    return b""


async def ledgers_of(apart: Apart, name: str) -> int:
    async with LedgerClient(apart.uris[name], config=CLIENT) as client:
        return len([ledger async for ledger in client.list_ledgers()])


def test_a_sync_that_is_killed_or_stopped_leaves_nothing_in_part_and_the_next_goes_on(tmp_path: Path) -> None:
    edits, path_bytes = 3000, 400
    with three_apart(tmp_path) as apart:
        apart.format()
        run(written_while_c_was_away(apart, edits, path_bytes))
        before = run(ledgers_of(apart, "c"))

        async def has_begun(more: int) -> None:
            async def is_there() -> bool:
                return await ledgers_of(apart, "c") >= before + more

            await until_true(is_there)

        slowly = apart.arguments("sync", "--ensemble=1", "--rate=0.1")
        with started(*slowly) as program:
            run(has_begun(1))
            program.send_signal(signal.SIGKILL)
            program.wait()
        with started(*slowly) as program:
            run(has_begun(2))
            said = stopped(program)
        assert "no segment was copied in part; go on with: bookledger journal sync ns1 " in said
        assert run(read_at(apart, "c", 11)) == b""
        (problem,) = apart.problems()
        assert problem.endswith("no majority would have it; `bookledger journal sync` copies it")
        done = apart.sync()
        assert (done["copied"], done["ops"]) == (1, edits)
        assert apart.problems() == [] and apart.sync()["copied"] == 0
        assert run(read_at(apart, "c", 11)) == frames(11, edits, path_bytes=path_bytes)
        code, told, said = apart.run("fsck", "--orphan-age=0", "--delete-orphans", "--yes")
        assert code == 0, (told, said)
        assert run(ledgers_of(apart, "c")) == before + 1


def test_two_at_a_time_beside_a_writer_bring_all_of_it_once(tmp_path: Path) -> None:
    with three_apart(tmp_path) as apart:
        apart.format()

        async def missed(first: int) -> None:
            async with apart.manager() as writer:
                await writer.recover_unfinalized_segments()
                apart.bookies["c"].kill()
                for start in range(first, first + 50, 10):
                    await write_segment(writer, start, start + 9)
                apart.bookies["c"].start()

        async def beside_a_writer() -> tuple[int, int]:
            async with apart.manager() as writer:
                await writer.recover_unfinalized_segments()
                out = await writer.start_log_segment(51)
                syncing = apart.arguments("sync", "--ensemble=1", "--json")
                with started(*syncing) as one, started(*syncing) as other:
                    while one.poll() is None or other.poll() is None:
                        await write(out, 5)
                    told = [json.loads(each.communicate()[0].splitlines()[-1]) for each in (one, other)]
                    assert (one.returncode, other.returncode) == (0, 0), told
                last = out.next_txid - 1
                await out.close()
                await writer.finalize_log_segment(51, last)
                await apart.everywhere(51)
                return sum(done["copied"] for done in told), last

        run(missed(1))
        copied, last = run(beside_a_writer())
        assert copied in (4, 5)  # the latest of the five may have come with the writer's recovery
        assert apart.problems() == []
        assert run(read_at(apart, "c", 51)) == frames(51, last - 50)


def test_a_journal_node_takes_by_itself_what_it_missed(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    settings = tmp_path / "settings.toml"
    settings.write_text("[journal]\nsync_interval_seconds = 0.3\n")

    async def write_at(addresses: list[str], first: int, last: int, *, new: bool = False) -> None:
        async with QuorumJournalManager(qjournal(addresses), namespace=NAMESPACE) as writer:
            if new:
                await writer.format(NAMESPACE)
            await writer.recover_unfinalized_segments()
            for start in range(first, last, 10):
                await write_segment(writer, start, start + 9)

    async def until_it_has(starts: list[int]) -> None:
        acceptors = [AcceptorConfig("jn3", uri)]
        async with JournalInspector(JOURNAL, acceptors) as inspector:

            async def has_them() -> bool:
                seen = await inspector.look("jn3")
                return seen is not None and all(seen.has_final(start) for start in starts)

            await until_true(has_them)

    with bookie_processes(3, tmp_path, uri), pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOOKLEDGER_CONFIG", str(settings))
        with journal_nodes(uri, tmp_path, 3) as nodes:
            addresses = [node.address for node in nodes]
            run(write_at(addresses, 1, 10, new=True))
            assert nodes[2].stop() == 0
            run(write_at(addresses, 11, 40))
            nodes[2].start()
            run(until_it_has([1, 11, 21, 31]))
            names = [f"--acceptor={node.name}" for node in nodes]
            succeeds("journal", "fsck", JOURNAL, f"--metadata={uri}", *names)
            assert nodes[2].stop() == 0
        assert " is not up to date everywhere" not in nodes[2].log.read_text()


def flip(apart: Apart, name: str, txid: int) -> None:
    """Flips a bit of an edit's directory name in the acceptor's only copy, on its bookie's disk; twice is as before."""
    directory = Path(apart.uris[name].removeprefix("sqlite://")).parent
    neighbours = frames(txid - 1, 1), frames(txid + 1, 1)
    found = 0
    for path in directory.glob("bookie/log/*"):
        content = path.read_bytes()
        before, after = (content.find(neighbour) for neighbour in neighbours)
        if before >= 0:
            assert before < after
            place = (before + after) // 2
            with path.open("r+b") as file:
                file.seek(place)
                file.write(bytes([content[place] ^ 1]))
            found += 1
    assert found == 1


def test_a_copy_that_rots_is_not_passed_on_and_a_whole_one_is(tmp_path: Path) -> None:
    with three_apart(tmp_path) as apart:
        apart.format()
        run(written_while_c_was_away(apart, 10, 0))
        for name in ("a", "b"):
            flip(apart, name, 15)
        before = run(ledgers_of(apart, "c"))
        code, told, _ = apart.run("sync", "--ensemble=1")
        assert code == 1
        problem = next(one["problem"] for one in told if "problem" in one)
        assert problem.startswith("acceptor c, segment 11-20 could not be copied: from a: ")
        assert "; from b: " in problem
        assert (run(ledgers_of(apart, "c")), run(read_at(apart, "c", 11))) == (before, b"")
        flip(apart, "b", 15)  # as it was
        assert apart.sync()["copied"] == 1
        assert run(read_at(apart, "c", 11)) == frames(11, 10)
