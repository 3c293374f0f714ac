"""Callbacks of the blocking client's futures: they run on its own thread, and must never stop it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest

import ledgers
from ledgers.blocking.client import WouldDeadlock
from ledgers.config import MIB, ClientConfig
from ledgers.errors import LedgerError

WAIT_SECONDS = 20.0


def test_a_callback_may_append_the_next_entry(uri: str) -> None:
    with ledgers.LedgerClient(uri) as client, client.create_ledger() as writer:
        whole: Future[int] = Future()

        def append_next(confirmed: Future[int]) -> None:
            if confirmed.result() == 200:
                whole.set_result(200)
            else:
                writer.append_async(b"next").add_done_callback(append_next)

        writer.append_async(b"first").add_done_callback(append_next)
        assert whole.result(WAIT_SECONDS) == 200


WAITING: dict[str, Callable[[ledgers.LedgerClient, ledgers.WriteHandle], object]] = {
    "append": lambda _, writer: writer.append(b"x"),
    "flush": lambda _, writer: writer.flush(),
    "close the writer": lambda _, writer: writer.close(),
    "read": lambda client, writer: client.open_ledger(writer.ledger_id),
    "list": lambda client, _: next(client.list_ledgers()),
    "close the client": lambda client, _: client.close(),
}


@pytest.mark.parametrize("call", WAITING.values(), ids=WAITING.keys())
def test_a_call_that_would_wait_in_a_callback_is_refused_and_the_writer_goes_on(
    uri: str, call: Callable[[ledgers.LedgerClient, ledgers.WriteHandle], object]
) -> None:
    with ledgers.LedgerClient(uri) as client, client.create_ledger() as writer:
        refused: Future[object] = Future()

        def wait_there(_: Future[int]) -> None:
            try:
                refused.set_result(call(client, writer))
            except LedgerError as error:
                refused.set_exception(error)

        writer.append_async(b"first").add_done_callback(wait_there)
        with pytest.raises(WouldDeadlock, match="make the call on another thread") as error:
            refused.result(WAIT_SECONDS)
        assert isinstance(error.value, RuntimeError)
        assert writer.append(b"undisturbed") == 1


def test_an_append_without_room_is_refused_in_a_callback_and_what_was_taken_is_confirmed(uri: str) -> None:
    config = ClientConfig(pending_bytes_max=MIB)
    with ledgers.LedgerClient(uri, config=config) as client, client.create_ledger() as writer:
        refused: Future[list[Future[int]]] = Future()

        def append_many(_: Future[int]) -> None:
            taken: list[Future[int]] = []
            try:
                for _n in range(100):
                    taken.append(writer.append_async(bytes(300_000)))
            except WouldDeadlock:
                refused.set_result(taken)

        writer.append_async(b"first").add_done_callback(append_many)
        taken = refused.result(WAIT_SECONDS)
        assert [future.result(WAIT_SECONDS) for future in taken] == [1, 2, 3, 4]
        assert writer.append(b"there is room again") == 5


def test_the_callback_of_a_failed_append_may_call_the_writer(uri: str) -> None:
    """It runs without any lock held that another thread's append needs."""
    with ledgers.LedgerClient(uri) as client:
        writer = client.create_ledger()
        writer.append(b"x")
        writer.close()
        answer: Future[object] = Future()

        def append_again(failed: Future[int]) -> None:
            answer.set_result((type(failed.exception()), writer._room.changed._is_owned()))  # type: ignore[attr-defined]

        writer.append_async(b"late").add_done_callback(append_again)
        assert answer.result(WAIT_SECONDS) == (ledgers.LedgerClosed, False)


def test_an_advanced_writers_callback_may_append_too(uri: str) -> None:
    with ledgers.LedgerClient(uri) as client, client.create_ledger_adv() as writer:
        whole: Future[int] = Future()

        def append_next(confirmed: Future[int]) -> None:
            if confirmed.result() == 50:
                whole.set_result(50)
            else:
                writer.append_async(confirmed.result() + 1, b"next").add_done_callback(append_next)

        writer.append_async(0, b"first").add_done_callback(append_next)
        assert whole.result(WAIT_SECONDS) == 50
