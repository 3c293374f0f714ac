"""What a program meets first: how a client is made and shown, and what a wrong argument is told."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bookledger import LedgerClient, Log, LogWriter
from bookledger.errors import BadMetadataUri, NoSuchCursor, NotEnoughBookies, Unauthorized
from ledgers import aio
from metadata.store_factory import uri_in


@pytest.fixture(scope="module")
def made(uri: str) -> Iterator[tuple[LedgerClient, Log, LogWriter]]:
    with LedgerClient(uri) as client:
        log = client.log("arguments", create=True)
        with log.writer() as writer:
            yield client, log, writer


def test_a_client_is_made_of_a_uri_a_path_or_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.setenv("BOOKLEDGER_METADATA", uri)
    with LedgerClient() as client:
        assert repr(client) == f"<LedgerClient of {uri}>"
    assert repr(client) == f"<LedgerClient of {uri}, closed>"
    assert uri_in(Path("/srv/a b.db")) == "sqlite:///srv/a%20b.db"
    monkeypatch.delenv("BOOKLEDGER_METADATA")
    with pytest.raises(BadMetadataUri, match="BOOKLEDGER_METADATA is not set; write etcd://"):
        LedgerClient()
    with pytest.raises(TypeError, match="a metadata URI is a str or a path, not int"):
        aio.LedgerClient(7)  # type: ignore[arg-type]


WRONG: list[tuple[Callable[[Any, Any], object], str]] = [
    (lambda log, _: list(log.read("5")), r"a position must be an int, not str: int\('5'\)"),
    (lambda log, _: list(log.tail(1.5)), "a position must be an int, not float"),
    (
        lambda log, _: list(log.tail(timeout="1")),
        "a timeout must be a number of seconds, 0 or more, or None, not str",
    ),
    (lambda log, _: list(log.consume("c", timeout="1")), "a timeout must be a number of seconds"),
    (lambda log, _: log.truncate("5"), "a position must be an int, not str"),
    (lambda log, _: log.position_at("2026"), "a time must be a datetime with a time zone, not str"),
    (lambda log, _: log.cursor("c").commit("5"), "a position must be an int, not str"),
    (lambda log, _: log.cursor("c").seek(1.5), "a position, a datetime, 'beginning' or 'end', not float"),
    (lambda _, writer: writer.confirmed("5"), "a position must be an int, not str"),
    (lambda _, writer: writer.append("x"), r"not str: encode it, for example with text.encode\(\)"),
    (lambda _, writer: writer.append(b"", key="k"), r"the key must be bytes, not str: encode it"),
    (lambda _, writer: writer.append(b"", headers=[1]), "headers must be a dict of names to bytes, not list"),
    (lambda _, writer: writer.append_batch(b"ab"), "a batch is a list of payloads, not bytes"),
    (lambda _, writer: writer.append_batch("ab"), "a batch is a list of payloads, not str"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_an_argument_of_a_wrong_type_is_told_what_was_expected(
    made: tuple[LedgerClient, Log, LogWriter], number: int
) -> None:
    call, why = WRONG[number]
    with pytest.raises(TypeError, match=why):
        call(made[1], made[2])


def test_buffers_are_copied_when_they_are_appended(made: tuple[LedgerClient, Log, LogWriter]) -> None:
    client, _, writer = made
    buffer = bytearray(b"first")
    future = writer.append_async(buffer)
    position = writer.append_batch([memoryview(b"second"), b"third"])[0]
    buffer[:] = b"other"
    assert future.result() == position - 1
    with client.create_ledger() as entries:
        found = entries.append_async(memoryview(buffer))
        entries.append_batch([bytearray(b"batch")])
        buffer[:] = b"XXXXX"
        assert found.result() == 0
    read = client.open_ledger(entries.ledger_id).read()
    assert [entry.payload for entry in read] == [b"other", b"batch"]
    with client.create_ledger_adv() as advanced:
        advanced.append(0, bytearray(b"0"))


def test_what_a_client_has_opened_shows_which_it_is(made: tuple[LedgerClient, Log, LogWriter]) -> None:
    client, log, writer = made
    assert repr(log) == "<Log 'arguments'>"
    assert repr(writer) == f"<LogWriter of log 'arguments': open, confirmed before {writer.confirmed_end}>"
    with log.cursor("shown") as cursor:
        assert repr(cursor) == "<Cursor 'shown' of log 'arguments' at position 0>"
    assert repr(client.log_set("spread", 2)) == "<LogSet 'spread' of 2 logs>"
    election = client.election("leads")
    assert repr(election) == "<Election 'leads'>"
    with election.lead() as term:
        assert repr(term) == f"<Term {term.token} of election 'leads': leading>"


def test_a_client_and_what_it_has_opened_cannot_be_pickled(made: tuple[LedgerClient, Log, LogWriter]) -> None:
    for one in (*made, made[1].cursor("pickled"), made[0].election("pickled")):
        with pytest.raises(
            TypeError, match="pass the metadata URI to the other process, and make a client there"
        ):
            pickle.dumps(one)


def test_a_cursor_is_looked_at_without_being_created(made: tuple[LedgerClient, Log, LogWriter]) -> None:
    log = made[1]
    with pytest.raises(NoSuchCursor):
        log.cursor("nobody", start=None)
    assert "nobody" not in [name for name, _ in log.cursors()]


def test_errors_say_what_is_needed_and_what_there_is(made: tuple[LedgerClient, Log, LogWriter]) -> None:
    client = made[0]
    with pytest.raises(NotEnoughBookies, match="it needs 9 bookies, and this cluster has 3"):
        client.create_ledger(ensemble_size=9)
    with client.create_ledger(password=b"secret") as guarded:
        pass
    with pytest.raises(Unauthorized, match="pass `password`, or --password-file to a command"):
        client.open_ledger(guarded.ledger_id)
    with pytest.raises(ValueError, match="has no time zone"):
        made[1].position_at(datetime(2026, 1, 1))  # noqa: DTZ001
