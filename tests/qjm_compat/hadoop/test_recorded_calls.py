"""What stock NameNodes of 3.4.1 asked of a stock JournalNode, in their order: ours answers what that one answered.

`recorded/` has the calls of whole procedures, as they were recorded between stock NameNodes and stock JournalNodes.
A line is a call, its epoch, serial number, committed transaction and name-service id, and the answer ("-" is an empty
one); `N` and `T` are the namespace's id and creation time. A heading is what was done. Each is a NameNode process of
its own, but calls with an epoch are of the process that was promised it. Lines with a star are what that node did not
see.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from qjm_compat.edits.op_frames import HEADER_BYTES
from qjm_compat.errors import JournalError
from qjm_compat.hadoop.client.connection import NodeClient
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.methods import METHODS
from tests.qjm_compat.hadoop.nodes import Nodes, on_a_node
from tests.qjm_compat.hadoop.recorded_messages import LINE, NAMESPACE_ID, Facts, Recorded, manifest, prepared
from tests.support.aio import until_true
from tests.support.served_journal_node import ServedNode

RECORDED = Path(__file__).parent / "recorded"
UPGRADED_C_TIME = 99


class Process:
    """A NameNode: one client id, at all nodes."""

    def __init__(self) -> None:
        self.clients: dict[str, NodeClient] = {}

    def at(self, node: ServedNode) -> NodeClient:
        if node.address not in self.clients:
            self.clients[node.address] = NodeClient(node.address)
            first = next(iter(self.clients.values()))
            self.clients[node.address]._client_id = first._client_id
        return self.clients[node.address]

    async def close(self) -> None:
        for client in self.clients.values():
            await client.close()


class Replay:
    """The calls at `node`, whose answers are compared, and at another one, which `node` copies from."""

    def __init__(self, nodes: Nodes, node: ServedNode, other: ServedNode) -> None:
        self.nodes, self.node, self.other = nodes, node, other
        self.processes = [Process()]
        self.owners: dict[int, Process] = {}
        self.facts = Facts(other.http_address)
        self.promised, self.is_ahead = 0, False
        """What is promised here, and whether that is more than was recorded: formats and rollbacks raise ours."""
        self.is_upgrading = self.is_rolled_back = False
        self.last_writer = self.writer_before = 0
        """A rollback brings back whose segments are there: a stock node goes on to name who wrote what is gone."""
        self.compared = 0

    async def line(self, line: str) -> None:
        if not line:
            return
        if line.startswith("# "):
            self.processes.append(Process())
        elif line.startswith("HTTP GET "):
            await self.fetch(line.split()[2])
        elif line == "* this node starts anew":
            await self.start_anew()
        else:
            match = LINE.fullmatch(line)
            assert match is not None, line
            for _ in range(int(match["times"] or 1)):
                await self.call(self.facts.recorded(match))

    async def call(self, line: Recorded) -> None:
        process = self.processes[-1] if line.epoch is None else self.owners[line.epoch]
        if line.method == "newEpoch":
            self.owners[line.fields["epoch"]] = process
            self.facts.epochs[line.fields["epoch"]] = self.promised = self.promised + 1
        request, reply = self.facts.message(line), METHODS[line.protocol][line.method].reply

        async def call(node: ServedNode) -> Any:
            return await process.at(node).call(line.method, request, reply, line.protocol)

        if line.only_others:
            await call(self.other)
            return
        answer = await answered(call(self.node))
        if line.epoch is not None or line.method in WITHOUT_EPOCH:
            await call(self.other)
        self.after(line)
        self.compare(line, answer)
        self.compared += 1

    def compare(self, line: Recorded, answer: Any) -> None:
        if isinstance(answer, JournalError):
            assert line.answer == f"{answer.java_class.rpartition('.')[2]} {answer}"
            return
        expected = {} if line.answer == "-" else json.loads(line.answer)
        assert line.answer == "-" or expected, f"{line} is answered by {answer}"
        told = self.told(line, answer)
        if self.is_upgrading and "manifest" in told:
            del told["manifest"]["committed"], expected["manifest"]["committed"]  # ours still knows it
        expected.pop("bytes", None)
        if "promised" in expected and self.is_ahead:
            expected["promised"] = self.promised
        if "lastWriter" in expected:
            expected["lastWriter"] = (
                self.last_writer if self.is_rolled_back else self.facts.epochs[expected["lastWriter"]]
            )
        assert told == expected, line

    def told(self, line: Recorded, answer: Any) -> dict[str, Any]:
        """An answer as it was recorded."""
        match answer:
            case pb.IsFormattedReply():
                return {"is": int(answer.is_formatted)}
            case pb.JournalStateReply():
                return {"promised": answer.last_promised_epoch}
            case pb.ManifestReply():
                return {"manifest": manifest(answer.manifest)}
            case pb.NewEpochReply():
                found = answer.HasField("last_segment_txid")
                return {"lastSegment": answer.last_segment_txid} if found else {}
            case pb.PrepareReply():
                return prepared(answer)
            case pb.JournaledEditsReply():
                since, count = line.fields["since"], answer.txn_count
                sent = b"".join(self.facts.edits[txid] for txid in range(since, since + count))
                assert answer.edit_log[HEADER_BYTES:] == sent
                return {"count": count}
            case pb.CTimeReply():
                return {"cTime": answer.c_time}
            case pb.CanRollBackReply():
                return {"can": int(answer.can_roll_back)}
        return {}

    def after(self, line: Recorded) -> None:
        match line.method:
            case "format":
                self._raise_promise(0 if not self.facts.epochs else 1)
                self.facts.epochs.clear()
                self.facts.edits.clear()
            case "doPreUpgrade":
                self.is_upgrading, self.facts.c_time = True, UPGRADED_C_TIME
                self.writer_before = self.last_writer
            case "doUpgrade":
                self.is_upgrading = False
            case "doRollback":
                self._raise_promise(1)
                self.is_rolled_back, self.facts.c_time = True, 0
                self.last_writer = self.writer_before
            case "startLogSegment":
                self.last_writer = self.promised

    def _raise_promise(self, by: int) -> None:
        self.promised += by
        self.is_ahead = self.is_ahead or by > 0

    async def start_anew(self) -> None:
        node = self.node
        self.node = await self.stack.enter_async_context(
            self.nodes.another("jn1", [_address(self.other.http_address)])
        )
        reader = Process()
        self.processes.insert(0, reader)

        async def sees_all() -> bool:
            """What is in progress is seen by others soon."""
            line = Recorded(
                "getEditLogManifest", {"since": 1, "inProgressOk": 1}, None, 0, None, "ns1", "", False
            )
            reply = await reader.at(self.node).call(line.method, self.facts.message(line), pb.ManifestReply)
            return reply.manifest.logs[-1].end_txid == max(self.facts.edits)

        await until_true(sees_all)
        await node.node.close()

    async def fetch(self, path: str) -> None:
        storage = f"-67:{NAMESPACE_ID}:{self.facts.c_time}:{self.facts.cluster_id}"
        status, headers, body = await self.nodes.get(path.partition("?")[2].replace("…", storage), self.node)
        assert status == 200
        assert re.fullmatch(r"edits_\d{19}-\d{19}", headers["X-Image-Edits-Name"])
        first, last = map(int, headers["X-Image-Edits-Name"].removeprefix("edits_").split("-"))
        assert body[HEADER_BYTES:] == b"".join(self.facts.edits[txid] for txid in range(first, last + 1))

    stack: AsyncExitStack


WITHOUT_EPOCH = {"format", "newEpoch", "doPreUpgrade", "doUpgrade", "doFinalize", "doRollback"}
"""What all nodes of a journal get, though it names no epoch."""


async def answered(asking: Any) -> Any:
    try:
        return await asking
    except JournalError as error:
        return error


def _address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@asynccontextmanager
async def replay_on(nodes: Nodes) -> AsyncIterator[Replay]:
    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(nodes.another("jn2", []))
        node = await stack.enter_async_context(nodes.another("jn1", [_address(other.http_address)]))
        replay = Replay(nodes, node, other)
        replay.stack = stack
        try:
            yield replay
        finally:
            for process in replay.processes:
                await process.close()


@pytest.mark.parametrize("name", ["upgrade", "tailing", "shared_edits"])
async def test_each_call_of_a_stock_name_node_is_answered_as_a_stock_journal_node_answered_it(
    name: str, tmp_path: Path
) -> None:
    lines = (RECORDED / f"{name}.txt").read_text().splitlines()
    async with on_a_node(tmp_path) as nodes, replay_on(nodes) as replay:
        for number, line in enumerate(lines, 1):
            try:
                await replay.line(line)
            except BaseException as error:
                error.add_note(f"{name}.txt, line {number}: {line}")
                raise
        assert replay.compared >= 30
