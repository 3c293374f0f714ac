"""Every error that a user can meet survives pickling and copying, with its fields."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import grpc
import pytest

from bookledger.errors import BadSelection, QuorumFailed
from ledgers import LedgerFenced
from metadata.picklable_errors import PicklableError

PACKAGES = ("metadata", "bookie", "ledgers", "qjm_compat", "spark")
VALUES = {"str": "said", "int": 4711, "float": 1.5, "bool": True, "grpc.StatusCode": grpc.StatusCode.ABORTED}


def every_class() -> Iterator[type[PicklableError]]:
    for package in PACKAGES:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if found.name.endswith("errors"):
                importlib.import_module(found.name)
    waiting, seen = [PicklableError], set[type[PicklableError]]()
    while waiting:
        kind = waiting.pop()
        if kind not in seen:  # some have several bases
            yield kind
        seen.add(kind)
        waiting += kind.__subclasses__()


def example_of(kind: type[PicklableError]) -> PicklableError:
    """One that was made with every argument that its constructor takes."""
    if kind.__init__ in (Exception.__init__, ValueError.__init__):
        return kind("said")
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    given = {p.name: _value(str(p.annotation)) for p in parameters if p.kind is not p.VAR_POSITIONAL}
    positional = [given[p.name] for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return kind(*positional, **{p.name: given[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY})


def _value(annotation: str) -> object:
    if "Mapping" in annotation:
        return {"bookie-1": "hangs"}
    if "Collection" in annotation or "Sequence" in annotation:
        return ("bookie-2",)
    return VALUES[annotation.removesuffix(" | None")]


@pytest.mark.parametrize("kind", list(every_class()), ids=lambda kind: kind.__name__)
def test_an_error_is_the_same_after_pickling_and_copying(kind: type[PicklableError]) -> None:
    error = example_of(kind)
    error.add_note("seen by a test")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
        assert again == error
        assert hash(again) == hash(error)
    assert error != PicklableError("another")


@pytest.mark.parametrize(
    "error",
    [
        BadSelection("'x' is not a ledger or a range of ledgers"),
        QuorumFailed("newEpoch", 2, 3, {"a": OSError(111, "refused"), "b": LedgerFenced(7, "it is")}),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_that_are_or_hold_ordinary_ones_compare_too(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert again == error == copy.deepcopy(error)
    assert hash(again) == hash(error)


def test_a_hash_stays_when_it_becomes_known_what_is_not_confirmed() -> None:
    error = LedgerFenced(7, "bookie b1 refuses its writer")
    known = {error}
    error.first_unconfirmed = 12
    assert error in known


def _is_fenced() -> None:
    error = LedgerFenced(7, "bookie b1 refuses its writer")
    error.first_unconfirmed = 12
    raise error


def test_an_error_raised_in_a_process_pool_arrives_with_its_fields_and_the_pool_goes_on() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for _ in range(2):
            with pytest.raises(LedgerFenced, match="the first unconfirmed entry is 12") as raised:
                pool.submit(_is_fenced).result()
            assert (raised.value.ledger_id, raised.value.first_unconfirmed) == (7, 12)
