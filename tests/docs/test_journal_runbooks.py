"""Runbooks of docs/runbooks.md about journals, in the trouble that each is for."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

from bookledger.cli.processes import bookie_processes
from qjm_compat import AcceptorConfig
from qjm_compat.transfer.inspection.inspector import JournalInspector
from tests.docs.test_runbooks import follow
from tests.qjm_compat.journals import JOURNAL, write_segment
from tests.support.aio import run
from tests.support.command_line import bookledger
from tests.support.journals_apart import CLIENT, CONFIG, NAMES, Apart, three_apart


def test_a_journal_was_formatted_at_some_of_its_acceptors_only(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    whose = ("--namespace-id=7", "--cluster-id=CID-7")

    def named(*names: str) -> list[str]:
        return ["ns1", f"--metadata={uri}", *(f"--acceptor={name}" for name in names)]

    with bookie_processes(1, tmp_path, uri):
        done = bookledger("journal", "format", *named("a", "b"), *whose)
        assert done.returncode == 0, done
        follow("A journal was formatted at some of its acceptors only", tmp_path, uri)
        done = bookledger("journal", "format", *named("a", "b", "c"), *whose, "--json")
        assert done.returncode == 1, done
        assert b"journal ns1 is formatted already at a, b and c" in done.stderr, done


def test_a_follower_of_a_journal_lacks_edits(tmp_path: Path) -> None:
    """One acceptor is dead and another was away: the third alone has edits 4-6."""

    async def written(apart: Apart) -> None:
        async with apart.manager() as writer:
            await writer.recover_unfinalized_segments()
            await write_segment(writer, 1, 3)
            await apart.everywhere(1)
            apart.bookies["c"].kill()
            await write_segment(writer, 4, 6)

    async def followed(apart: Apart) -> list[int]:
        async with apart.manager() as reader, aclosing(reader.tail(1)) as edits:
            return [(await anext(edits)).txid for _ in range(6)]

    async def lacking(apart: Apart, *names: str) -> list[str]:
        living = [AcceptorConfig(name, apart.uris[name]) for name in names]
        async with JournalInspector(JOURNAL, living, CONFIG, CLIENT) as inspector:
            return list(await inspector.lacking(4))

    with three_apart(tmp_path) as apart:
        apart.format()
        run(written(apart))
        assert run(lacking(apart, "a", "b", "c")) == ["c"]
        apart.bookies["c"].start()
        apart.lose("a")
        assert run(followed(apart)) == [1, 2, 3, 4, 5, 6]
        here = {f"--acceptor {name}": f"--acceptor {name}={apart.uris[name]}" for name in NAMES}
        here["journal sync ns1"] = "journal sync ns1 --ensemble 1"
        follow("A follower of a journal ends, or lacks edits", tmp_path, apart.uris["b"], here)
        assert run(lacking(apart, "b", "c")) == []
