"""`bookledger log set` on real bookies."""

from __future__ import annotations

import json
from functools import partial

import pytest

from ledgers import LedgerClient
from tests.support.command_line import bookledger, fails_with_one_line, told

of_json = partial(told, "log")


def test_a_set_is_made_shown_grown_listed_and_deleted(uri: str, meta: str) -> None:
    made = of_json(
        "set", "create", meta, "orders", "2", "--ensemble=2", "--ack-quorum=2", "--roll-records=10"
    )
    assert made == {
        "set": "orders",
        "log_count": 2,
        "growth_count": 0,
        "growing_to": None,
        "retention": None,
        "legal_hold": False,
    }
    with LedgerClient(uri) as client, client.log_set("orders").writer() as writer:
        writer.append(b"sold", key=b"123456789")  # which log 0 has of two, and log 2 of four
        client.create_log("orders.9")
    assert of_json("set", "grow", meta, "orders", "4") == {**made, "log_count": 4, "growth_count": 1}
    shown = of_json("set", "show", meta, "orders")
    assert (shown["log_count"], shown["growth_count"], shown["growing_to"]) == (4, 1, None)
    assert [one["used_after"] for one in shown["logs"]] == [None, None, "orders.0 to 1", "orders.1 to 0"]
    assert of_json("show", meta, "orders.3")["roll_records"] == 10
    listed = bookledger("log", "list", meta, "--json").stdout.splitlines()
    of = {one["log"]: one["set"] for one in map(json.loads, listed)}
    assert of == {**{f"orders.{n}": "orders" for n in range(4)}, "orders.9": None}
    assert of_json("set", "delete", meta, "--yes", "orders") == {"set": "orders", "deleted": True}
    with LedgerClient(uri) as client:
        assert [name for name, _ in client.list_logs()] == ["orders.9"]
        client.delete_log("orders.9")


def test_what_cannot_be_done_with_a_set_is_told_in_one_line(uri: str, meta: str) -> None:
    for command in (["show"], ["grow"], ["delete", "--yes"]):
        more = ["4"] if command[0] == "grow" else []
        said = fails_with_one_line("log", "set", *command, meta, "nowhere", *more)
        assert said.startswith("there is no set of logs 'nowhere'")
    of_json("set", "create", meta, "sales", "2")
    assert "a set of logs named 'sales' already exists" in fails_with_one_line(
        "log", "set", "create", meta, "sales", "2"
    )
    assert "2 logs can only grow to a multiple of that" in fails_with_one_line(
        "log", "set", "grow", meta, "sales", "3"
    )
    with LedgerClient(uri) as client:
        assert of_json("set", "hold", meta, "sales")["legal_hold"] is True
        assert "sales.0" in fails_with_one_line("log", "set", "delete", meta, "--yes", "sales")
        assert of_json("set", "hold", meta, "sales", "--end")["legal_hold"] is False
        assert of_json("set", "retention", meta, "sales", "--age=7d")["retention"]["age_seconds"] == 604800
        assert client.log("sales.1").retention.age_seconds == 604800
        assert "belongs to set 'sales'" in fails_with_one_line("log", "hold", meta, "sales.1")
        client.create_log("more.1")
        assert "log 'more.1' already exists" in fails_with_one_line("log", "set", "create", meta, "more", "2")
        client.delete_log("more.1")
        client.delete_log_set("sales")


@pytest.mark.parametrize("kind", ["log", "set"])
def test_what_was_deleted_in_part_is_deleted_by_the_same_command(
    uri: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def interrupts(*_: object) -> None:
        raise InterruptedError

    with LedgerClient(uri) as client:
        if kind == "log":
            client.create_log("half")
        else:
            client.log_set("half", 2)
        with monkeypatch.context() as patch, pytest.raises(InterruptedError):
            patch.setattr("ledgers.logs.log_calls.delete_all", interrupts)
            (client.delete_log if kind == "log" else client.delete_log_set)("half")
    command = ["delete"] if kind == "log" else ["set", "delete"]
    assert of_json(*command, f"--metadata={uri}", "half") == {kind: "half", "deleted": True}
    assert "there is no" in fails_with_one_line("log", *command, f"--metadata={uri}", "--yes", "half")
