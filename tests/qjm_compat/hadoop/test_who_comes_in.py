"""Who may connect to a JournalNode: at each bound and one past it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bookie.wire import connection_table
from qjm_compat.hadoop.node_limits import NodeLimits
from qjm_compat.hadoop.server import connections
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from tests.qjm_compat.hadoop.nodes import (
    IS_FORMATTED,
    JID,
    NOT_FORMATTED,
    active,
    call_frame,
    is_served,
    on_a_node,
    standing_still,
    stranger,
    words_of_refusal,
)
from tests.support.aio import until_true


async def test_as_many_connections_as_allowed_are_served_and_the_next_is_told_so(tmp_path: Path) -> None:
    async with on_a_node(tmp_path, NodeLimits(connections_max=3)) as nodes, stranger(nodes), stranger(nodes):
        async with stranger(nodes, IS_FORMATTED, of="127.0.0.2") as (reader, _):
            assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED
            async with stranger(nodes, IS_FORMATTED, of="127.0.0.2") as (refused, _):
                assert b"3 connections are open at this port, and no more may be" in await words_of_refusal(
                    refused
                )
        await until_true(lambda: len(nodes.node.server.connections) == 2)
        assert await is_served(nodes)


async def test_an_address_has_as_many_connections_as_allowed_and_the_next_of_it_is_told_so(
    tmp_path: Path,
) -> None:
    async with (
        on_a_node(tmp_path, NodeLimits(connections_max=4, peer_share=0.5)) as nodes,
        stranger(nodes),
        stranger(nodes, IS_FORMATTED) as (reader, _),
    ):
        assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED
        async with stranger(nodes, IS_FORMATTED) as (refused, _):
            assert b"2 connections of this address are open" in await words_of_refusal(refused)
        async with stranger(nodes, IS_FORMATTED, of="127.0.0.2") as (other, _):
            assert await other.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED
        assert nodes.node.server.table.refused == 1


async def test_where_all_places_are_taken_the_address_that_has_most_makes_way_idle_or_not(
    tmp_path: Path,
) -> None:
    asked = call_frame("getJournalState", pb.OfJournal(journal_id=JID))
    async with on_a_node(tmp_path, NodeLimits(connections_max=6, peer_share=1)) as nodes:
        await active(nodes)
        async with standing_still(nodes), AsyncExitStack() as stay:
            taken = nodes.node.server.limits.connections_max - len(nodes.node.server.connections)
            many = [
                await stay.enter_async_context(stranger(nodes, asked, of="127.0.0.3")) for _ in range(taken)
            ]
            await until_true(lambda: nodes.node.server.load.calls == taken)
            assert await is_served(nodes, of="127.0.0.2")
            assert await words_of_refusal(many[0][0]) == b"", "the oldest of those that wait for an answer"
            assert nodes.node.server.table.made_way == 1


async def test_who_has_not_said_who_it_is_makes_way_for_the_next_that_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_table, "STRANGER_SECONDS_MIN", 0.0)
    monkeypatch.setattr(connections, "STRANGERS_MAX", 4)
    async with on_a_node(tmp_path, NodeLimits(peer_share=0.5)) as nodes, AsyncExitStack() as stay:
        silent = [await stay.enter_async_context(stranger(nodes, introduced=False)) for _ in range(2)]
        await until_true(lambda: nodes.node.server.table.strangers == 2)
        assert await is_served(nodes)
        assert await words_of_refusal(silent[0][0]) == b""
        assert nodes.node.server.table.strangers == 1
