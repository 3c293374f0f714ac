"""The two clients have one text: each call of a blocking class tells and takes what that of its asyncio twin does."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

import ledgers
import qjm_compat
from ledgers import aio
from ledgers.blocking.log_set import LogSetWriter
from ledgers.blocking.twin_calls import BlockingFacade, PagedIterator
from ledgers.logs.sets import log_set, set_writer
from qjm_compat import aio as journals
from qjm_compat.manager import input_stream, output_stream

TWINS: dict[type, type] = {
    ledgers.LedgerClient: aio.LedgerClient,
    ledgers.WriteHandle: aio.WriteHandle,
    ledgers.AdvancedWriteHandle: aio.AdvancedWriteHandle,
    ledgers.ReadHandle: aio.ReadHandle,
    ledgers.Salvage: aio.Salvage,
    ledgers.Log: aio.Log,
    ledgers.LogWriter: aio.LogWriter,
    ledgers.LogSet: log_set.LogSet,
    LogSetWriter: set_writer.LogSetWriter,
    ledgers.Cursor: aio.Cursor,
    ledgers.Election: aio.Election,
    ledgers.Term: aio.Term,
    qjm_compat.QuorumJournalManager: journals.QuorumJournalManager,
    qjm_compat.EditLogOutputStream: output_stream.EditLogOutputStream,
    qjm_compat.EditLogInputStream: input_stream.EditLogInputStream,
}
LOST = (ledgers.Term, "lost")
"""An event of each client's own kind."""

OF_ONE_LOOP = re.compile(r"; belongs to its event loop|\bBelongs to its event loop\.")
OF_THREADS = re.compile(
    r"; may be used from several threads|One thread writes to it at a time; another thread may flush it\."
)
OF_ONE_CLIENT = re.compile(r"await|coroutine|async |\baio\b|thread")


each_class = pytest.mark.parametrize("blocking", TWINS, ids=lambda one: one.__name__)


def shared(blocking: type) -> Iterator[tuple[str, Any, Any]]:
    """The public names of both twins, and what they are in each."""
    for name in dir(blocking):
        if not name.startswith("_") and hasattr(TWINS[blocking], name) and (blocking, name) != LOST:
            yield name, getattr(blocking, name), getattr(TWINS[blocking], name)


def calls(blocking: type) -> list[tuple[str, Any, Any]]:
    return [case for case in shared(blocking) if not isinstance(case[1], property)]


def returned(annotation: str) -> str:
    """What a call returns, whichever client's it is."""
    items = re.fullmatch(r"(?:Async|Paged)?(?:Generator|Iterator)\[(.*?)(?:, None)*\]", annotation)
    annotation = annotation.removeprefix("asyncio.").replace("AbstractContextManager[Term]", "Leading")
    return annotation if items is None else f"items: {items[1]}"


def is_of_the_product(one: type) -> bool:
    return not one.__module__.startswith("tests.")


def test_every_blocking_class_is_compared_with_its_twin() -> None:
    faces = set[type]()
    left: list[type] = [BlockingFacade]
    while left:
        derived: list[type] = type.__subclasses__(left.pop())
        below = list(filter(is_of_the_product, derived))
        faces.update(below)
        left += below
    inner = {one for one in faces if one.__module__.endswith((".base_client", ".handle", ".bulk_writer"))}
    assert faces - inner == set(TWINS) - {LogSetWriter}


@each_class
def test_a_class_is_described_as_its_twin_but_for_where_it_may_be_used(blocking: type) -> None:
    told, twin = inspect.getdoc(blocking), inspect.getdoc(TWINS[blocking])
    assert told is not None and twin is not None
    if blocking not in (ledgers.LedgerClient, qjm_compat.QuorumJournalManager):
        assert OF_ONE_LOOP.sub("", twin).split() == OF_THREADS.sub("", told).split()


@each_class
def test_a_call_tells_what_its_twin_tells(blocking: type) -> None:
    for name, own, twin in shared(blocking):
        told = inspect.getdoc(own)
        assert told == inspect.getdoc(twin), name
        assert not OF_ONE_CLIENT.search(told or ""), f"{name}: this holds for one client only"


@each_class
def test_a_call_takes_what_its_twin_takes_and_returns_the_counterpart(blocking: type) -> None:
    for name, own, twin in calls(blocking):
        call, asynchronous = inspect.signature(own), inspect.signature(twin)
        assert call.parameters == asynchronous.parameters, name
        assert returned(call.return_annotation) == returned(asynchronous.return_annotation), name


@each_class
def test_a_call_is_a_method_of_its_own_class(blocking: type) -> None:
    for name, own, _ in calls(blocking):
        home = next(one for one in blocking.__mro__ if name in vars(one))
        assert inspect.isfunction(own), name
        assert not inspect.iscoroutinefunction(inspect.unwrap(own)), f"{name}: a mock of it would be awaited"
        assert (own.__module__, own.__qualname__) == (home.__module__, f"{home.__qualname__}.{name}")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (ledgers.LedgerClient.create_ledger, ledgers.WriteHandle),
        (ledgers.LedgerClient.log, ledgers.Log),
        (ledgers.LedgerClient.describe_ledger, ledgers.LedgerRecord),
        (ledgers.ReadHandle.read, PagedIterator[ledgers.Entry]),
        (ledgers.LedgerClient.list_ledgers, PagedIterator[ledgers.LedgerRecord]),
    ],
)
def test_the_type_that_a_call_returns_is_the_blocking_one(call: Any, kind: object) -> None:
    assert get_type_hints(call)["return"] == kind
