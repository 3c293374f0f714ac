"""Whatever became of a cookie: it is the one that was written, or the directory is refused (W7)."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bookie.errors import DataDirectoryError
from bookie.serving.cookie_check import check_cookie
from bookie.serving.directory import COOKIE, COOKIE_BYTES_MAX, UNFINISHED, format_directory, read_cookie
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import cluster
from metadata.records.cluster import Cookie
from tests.bookie.fuzz.mutations import Change, changed, changes
from tests.bookie.logs import INCARNATION
from tests.support.aio import run
from tests.support.present import there

DEEP = b"[" * 4000
"""Deeper than a recursive parser goes."""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("version", "cluster_id", "bookie_id", "incarnation", "predecessors")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MemoryData, Cookie]:
    """A formatted directory, and the metadata that knows it."""
    path, data = tmp_path_factory.mktemp("identity") / "b1", MemoryData()

    async def make() -> Cookie:
        return await format_directory(path, "b1", MemoryStore(data))

    return path, data, run(make())


Made = tuple[Path, MemoryData, Cookie]
written = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def told(made: Made, cookie_bytes: bytes) -> Cookie | None:
    """What a start makes of these bytes; None where it refuses."""
    path, data, _ = made
    (path / COOKIE).write_bytes(cookie_bytes)

    async def check() -> Cookie | None:
        try:
            return await check_cookie(path, MemoryStore(data))
        except DataDirectoryError:
            return None

    return run(check())


def bytes_of(cookie: Cookie) -> bytes:
    return json.dumps({"version": 1, **asdict(cookie)}, indent=2).encode() + b"\n"


@given(changes())
def test_a_changed_cookie_is_the_same_or_refused(made: Made, by: tuple[Change, ...]) -> None:
    assert told(made, changed(bytes_of(made[2]), by)) in (made[2], None)


@given(st.binary(max_size=200))
@example(b"")
@example(DEEP)
@example(b'{"version": 1}')
def test_any_bytes_are_no_cookie(made: Made, data: bytes) -> None:
    assert told(made, data) is None


def test_a_file_longer_than_any_cookie_is_none_whatever_it_says(made: Made) -> None:
    written = bytes_of(made[2])
    assert told(made, written.ljust(COOKIE_BYTES_MAX)) == made[2]
    assert told(made, written.ljust(COOKIE_BYTES_MAX + 1)) is None


@given(st.one_of(json_values, st.fixed_dictionaries(dict.fromkeys(FIELDS, json_values))))
def test_any_json_is_no_cookie(made: Made, value: object) -> None:
    assert told(made, json.dumps(value).encode()) is None


@given(st.sampled_from(FIELDS), st.text(max_size=8) | json_values)
@example("incarnation", INCARNATION.upper())
@example("incarnation", "")
def test_a_cookie_with_another_value_in_it_is_refused_where_it_is_read(
    made: Made, field: str, value: object
) -> None:
    """Not further on, by whoever cannot use it."""
    path, _, cookie = made
    fields = {"version": 1, **asdict(cookie)}
    (path / COOKIE).write_bytes(json.dumps({**fields, field: value}).encode())
    try:
        found = read_cookie(path)
    except DataDirectoryError:
        return
    assert all(isinstance(text, str) for text in found.names.values())
    assert all(str(uuid.UUID(one)) == one for one in (found.incarnation, *found.predecessors))


# --- a format that a crash interrupted


async def formatted_again(path: Path, data: MemoryData) -> Cookie | None:
    """What formatting makes of an unfinished directory; None where it refuses."""
    try:
        return await format_directory(path, "b1", MemoryStore(data))
    except DataDirectoryError:
        return None


def unfinished(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "b1"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    (path / UNFINISHED).write_bytes(data)
    return path


COOKIE_BEGUN = Cookie("c0ffee00-66b0-4f3e-9d0c-2b1f6f0d8a11", "b1", INCARNATION)
begun = st.one_of(
    changes().map(lambda by: changed(bytes_of(COOKIE_BEGUN), by)),
    st.binary(max_size=100),
    json_values.map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries(dict.fromkeys(FIELDS, json_values)).map(lambda value: json.dumps(value).encode()),
)


@written
@given(begun)
@example(DEEP)
@example(b"5")
@example(b"null")
async def test_a_damaged_format_that_nobody_knows_of_is_begun_anew_or_refused(
    tmp_path: Path, data: bytes
) -> None:
    path, metadata = unfinished(tmp_path, data), MemoryData()
    cookie = await formatted_again(path, metadata)
    if cookie is None:
        assert os.listdir(path) == [UNFINISHED], "what is refused is left as it is"
        assert (path / UNFINISHED).read_bytes() == data
    else:
        assert read_cookie(path) == cookie
        assert str(uuid.UUID(cookie.incarnation)) == cookie.incarnation


@written
@given(begun)
@example(DEEP)
@example(b"5")
async def test_a_damaged_format_never_gets_a_name_that_another_identity_has(
    tmp_path: Path, data: bytes
) -> None:
    """W7: the metadata knew the identity before the crash; it is finished as it was, or the name is refused."""
    metadata = MemoryData()
    shutil.rmtree(tmp_path / "other", ignore_errors=True)
    store = MemoryStore(metadata)
    await format_directory(tmp_path / "other", "b2", store)
    cluster_id = there(await cluster.cluster_id(store))
    known = Cookie(cluster_id, "b1", COOKIE_BEGUN.incarnation)
    await store.create(f"cookies/{known.bookie_id}", known.encode())
    cookie = await formatted_again(unfinished(tmp_path, data), metadata)
    assert cookie is None or cookie.incarnation == COOKIE_BEGUN.incarnation
