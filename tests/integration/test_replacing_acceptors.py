"""The runbook of docs/journals.md: acceptors of a journal that are lost, one after the other, and replaced."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.qjm_compat.journals import JOURNAL, NAMESPACE, all_edits, frames, write, write_segment
from tests.support.aio import run
from tests.support.command_line import bookledger, succeeds
from tests.support.journals_apart import NAMES, Apart, three_apart


async def until_nothing_is_wrong(apart: Apart) -> None:
    """What a majority has done the third may still be doing."""
    while await asyncio.to_thread(apart.problems):  # noqa: ASYNC110 — what is waited for is outside this process
        await asyncio.sleep(0.1)


async def test_all_three_are_replaced_one_after_the_other_and_every_edit_is_there(tmp_path: Path) -> None:
    """Each time a writer is in the middle of a segment, which a majority of before has."""

    async def replaced(apart: Apart, name: str, next_txid: int) -> int:
        """The next txid, when everything is everywhere again."""
        async with apart.manager() as writer:
            await writer.recover_unfinalized_segments()
            await write_segment(writer, next_txid, next_txid + 9)
            out = await writer.start_log_segment(next_txid + 10)
            await write(out, 5)
            apart.lose(name)
            await write(out, 5)
            apart.make_cluster(name)
            assert (await asyncio.to_thread(apart.run, "fsck"))[0] == 1
            code, _, said = await asyncio.to_thread(apart.run, "sync", "--ensemble=1")
            assert (code, said) == (1, ""), "the new one is not formatted yet"
            told = await asyncio.to_thread(apart.format)
            assert told["formatted"] == [name]
            await write(out, 5)
            await out.close()
        async with apart.manager() as writer:  # with the new one among its acceptors
            recovered = await writer.recover_unfinalized_segments()
            assert recovered is not None and recovered.end_txid == next_txid + 24
            await write_segment(writer, next_txid + 25, next_txid + 29)
        await asyncio.to_thread(apart.sync)
        await until_nothing_is_wrong(apart)
        return next_txid + 30

    with three_apart(tmp_path) as apart:
        apart.format()
        next_txid = 1
        for name in NAMES:
            next_txid = await replaced(apart, name, next_txid)
        async with apart.manager() as reader:
            assert await all_edits(reader) == frames(1, next_txid - 1)


async def test_where_two_are_lost_nothing_is_formatted_and_what_is_left_can_be_taken_out(
    tmp_path: Path,
) -> None:
    with three_apart(tmp_path) as apart:
        apart.format()
        async with apart.manager() as writer:
            await writer.recover_unfinalized_segments()
            await write_segment(writer, 1, 10)
            await apart.everywhere(1)
        for name in ("b", "c"):
            apart.lose(name)
            apart.make_cluster(name)
        whose = f"--namespace-id={NAMESPACE.namespace_id}", f"--cluster-id={NAMESPACE.cluster_id}"
        code, told, said = apart.run("format", *whose)
        assert (code, told) == (1, [])
        assert "nothing was done: acceptor a holds journal ns1, and b, c would be added" in said
        alone = apart.uris["a"]
        exported = tmp_path / "exported"
        succeeds("journal", "export", JOURNAL, str(exported), f"--metadata={alone}", f"--acceptor=a={alone}")
        assert [path.name for path in sorted(exported.glob("edits_*"))] == [
            "edits_0000000000000000001-0000000000000000010"
        ]


def test_a_second_one_is_not_replaced_before_the_first_is_synced(tmp_path: Path) -> None:
    """Both would lack what the third alone has, and would be a majority."""

    async def written(apart: Apart) -> None:
        async with apart.manager() as writer:
            await writer.recover_unfinalized_segments()
            await write_segment(writer, 1, 10)
            await apart.everywhere(1)

    async def read(apart: Apart) -> bytes:
        async with apart.manager() as reader:
            return await all_edits(reader)

    def lose(apart: Apart, name: str) -> None:
        apart.lose(name)
        apart.make_cluster(name)

    with three_apart(tmp_path) as apart:
        apart.format()
        run(written(apart))
        lose(apart, "c")
        assert apart.format()["formatted"] == ["c"]
        (problem,) = apart.problems()
        assert problem.startswith(
            "segment 1-10: acceptor c does not have it finalized: with one more acceptor lost"
        )
        lose(apart, "b")
        whose = f"--namespace-id={NAMESPACE.namespace_id}", f"--cluster-id={NAMESPACE.cluster_id}"
        code, told, said = apart.run("format", *whose)
        assert (code, told) == (1, [])
        assert "nothing was done: acceptor c lacks segment 1-10, and with b added, a majority might" in said
        assert "run `bookledger journal sync` first" in said
        left = [f"--acceptor={name}={apart.uris[name]}" for name in ("a", "c")]
        synced = bookledger(
            "journal", "sync", JOURNAL, f"--metadata={apart.uris['a']}", *left, "--ensemble=1", "--json"
        )
        assert (synced.returncode, json.loads(synced.stdout)["copied"]) == (0, 1), synced
        assert apart.format()["formatted"] == ["b"]
        apart.sync()
        assert apart.problems() == []
        lose(apart, "a")
        assert apart.format()["formatted"] == ["a"]
        assert run(read(apart)) == frames(1, 10)
