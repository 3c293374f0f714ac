"""Which column says what of an op; and that what a log writes for "nothing" is null."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from qjm_compat.edits import EditOp
from qjm_compat.edits.fields.permissions import AclChange, Permission
from qjm_compat.edits.fields.xattrs import XAttrChange
from qjm_compat.edits.ops import attributes, cache, files, namespace, segments, snapshots, tokens
from qjm_compat.edits.ops.cache import CacheDirective, CachePool
from qjm_compat.edits.ops.tokens import DelegationToken
from spark.edits.fields import COLUMNS, EARLIEST_MS, LATEST_MS
from tests.qjm_compat.edits.sample_ops import CLIENT, NOON_MS, PERMISSION, sample_ops
from tests.spark.edits.made_edits import rows_of

NOON = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=NOON_MS)
TOKEN = DelegationToken(0, "ada", "yarn", "", NOON_MS, NOON_MS + 1, 1, 1)


def row_of(op: EditOp, layout_version: int = -67) -> dict[str, object]:
    (row,) = rows_of([op], layout_version=layout_version)
    return row


def test_the_fields_asked_for_most_have_columns() -> None:
    made = namespace.Mkdir(txid=1, inode_id=7, path="/a", mtime_ms=NOON_MS, atime_ms=0, permission=PERMISSION)
    gone = namespace.Delete(txid=2, path="/a", timestamp_ms=NOON_MS, rpc_client_id=CLIENT, rpc_call_id=3)
    first, second = rows_of([made, gone])
    assert (first["username"], first["groupname"], first["mode"]) == ("ada", "staff", 0o750)
    assert (first["inode_id"], first["path"], first["timestamp"]) == (7, "/a", NOON)
    assert (second["rpc_client_id"], second["rpc_call_id"], second["timestamp"]) == (CLIENT.hex(), 3, NOON)
    assert second["username"] is None and first["rpc_call_id"] is None


@pytest.mark.parametrize(
    "op",
    [
        snapshots.AllowSnapshot(txid=1, root="/it"),
        snapshots.DisallowSnapshot(txid=1, root="/it"),
        snapshots.CreateSnapshot(txid=1, root="/it", snapshot="s"),
        snapshots.DeleteSnapshot(txid=1, root="/it", snapshot="s"),
        snapshots.RenameSnapshot(txid=1, root="/it", old_name="s", new_name="t"),
        attributes.SetAcl(txid=1, change=AclChange("/it", ())),
        attributes.SetXAttr(txid=1, change=XAttrChange("/it", ())),
        attributes.RemoveXAttr(txid=1, change=XAttrChange("/it", ())),
        cache.AddCacheDirective(txid=1, directive=CacheDirective(1, "/it", 2, "pool", 3)),
        namespace.RenameOld(txid=1, source="/it", target="/b", timestamp_ms=0),
        namespace.ConcatDelete(txid=1, target="/it", sources=("/b",), timestamp_ms=0),
        files.ReassignLease(txid=1, lease_holder="a", path="/it", new_holder="b"),
    ],
    ids=lambda op: type(op).__name__,
)
def test_a_path_is_found_wherever_an_op_has_it(op: EditOp) -> None:
    assert row_of(op)["path"] == "/it"


def test_a_target_is_where_a_renaming_or_a_link_leads() -> None:
    for op in (
        namespace.RenameOld(txid=1, source="/a", target="/b", timestamp_ms=0),
        namespace.Rename(txid=1, source="/a", target="/b", timestamp_ms=0, options=()),
        namespace.Symlink(
            txid=1, inode_id=1, path="/a", target="/b", mtime_ms=0, atime_ms=0, permission=PERMISSION
        ),
    ):
        row = row_of(op)
        assert (row["path"], row["target"]) == ("/a", "/b")


def test_a_concats_path_is_the_file_that_grows_and_nothing_is_its_target() -> None:
    row = row_of(namespace.ConcatDelete(txid=1, target="/a", sources=("/b", "/c"), timestamp_ms=0))
    assert (row["path"], row["target"]) == ("/a", None)
    assert '"sources":["/b","/c"]' in str(row["fields"])


def test_a_pool_and_a_token_say_whose_they_are() -> None:
    pool = row_of(cache.AddCachePool(txid=1, info=CachePool("fast", "ada", "staff", 0o755)))
    assert (pool["username"], pool["groupname"], pool["mode"]) == ("ada", "staff", 0o755)
    changed = row_of(cache.ModifyCachePool(txid=1, info=CachePool("fast", limit_bytes=9)))
    assert (changed["username"], changed["groupname"], changed["mode"]) == (None, None, None)
    assert row_of(tokens.GetDelegationToken(txid=1, token=TOKEN, expires_ms=9))["username"] == "ada"
    assert row_of(tokens.CancelDelegationToken(txid=1, token=TOKEN))["username"] == "ada"


def test_a_directive_says_how_many_copies_are_kept() -> None:
    row = row_of(cache.ModifyCacheDirective(txid=1, directive=CacheDirective(1, replication=2)))
    assert (row["replication"], row["path"]) == (2, None)


def test_the_time_is_when_it_happened_and_not_another_that_the_op_tells() -> None:
    """A token is renewed and cancelled later than it was given out, which is all that these ops tell."""
    assert row_of(segments.RollingUpgradeStart(txid=1, started_ms=NOON_MS))["timestamp"] == NOON
    assert row_of(segments.RollingUpgradeFinalize(txid=1, finalized_ms=NOON_MS))["timestamp"] == NOON
    assert row_of(tokens.GetDelegationToken(txid=1, token=TOKEN, expires_ms=9))["timestamp"] == NOON
    assert row_of(tokens.RenewDelegationToken(txid=1, token=TOKEN, expires_ms=9))["timestamp"] is None
    assert row_of(tokens.CancelDelegationToken(txid=1, token=TOKEN))["timestamp"] is None


def test_a_time_that_the_layout_lacks_is_null() -> None:
    old = snapshots.CreateSnapshot(txid=1, root="/a", snapshot="s")
    new = snapshots.CreateSnapshot(txid=1, root="/a", snapshot="s", mtime_ms=NOON_MS)
    assert row_of(old, -65)["timestamp"] is None
    assert row_of(new, -66)["timestamp"] == NOON


def test_a_time_that_is_left_as_it_is_is_null() -> None:
    assert row_of(attributes.Times(txid=1, path="/a", mtime_ms=-1, atime_ms=5))["timestamp"] is None
    kept = row_of(attributes.Times(txid=1, path="/a", mtime_ms=0, atime_ms=5))["timestamp"]
    assert kept == datetime(1970, 1, 1, tzinfo=UTC), "a file may be as old as that"


@pytest.mark.parametrize(
    ("ms", "is_shown"),
    [
        (EARLIEST_MS, True),
        (EARLIEST_MS - 1, False),
        (LATEST_MS, True),
        (LATEST_MS + 1, False),
        (2**63 - 1, False),
        (-(2**63), False),
    ],
)
def test_a_time_that_python_cannot_show_is_null(ms: int, is_shown: bool) -> None:
    row = row_of(namespace.Delete(txid=1, path="/a", timestamp_ms=ms))
    assert (row["timestamp"] is not None) == is_shown
    assert str(ms) in str(row["fields"])


def test_an_inode_of_which_the_log_knows_no_id_has_none() -> None:
    """A NameNode writes 0 when a file is closed."""
    closed: dict[str, Any] = dict.fromkeys(("replication", "mtime_ms", "atime_ms", "block_size"), 1)
    permission = Permission("ada", "staff", 0o644)
    for inode_id, told in ((0, None), (16386, 16386)):
        op = files.Close(txid=1, inode_id=inode_id, path="/a", blocks=(), permission=permission, **closed)
        assert row_of(op)["inode_id"] == told


def test_an_op_that_no_client_asked_for_has_no_client() -> None:
    """Else a join on the client would take all of these for one."""
    row = row_of(namespace.Delete(txid=1, path="/a", timestamp_ms=0))
    assert (row["rpc_client_id"], row["rpc_call_id"]) == (None, None)


def test_an_owner_that_is_not_changed_is_null() -> None:
    row = row_of(attributes.SetOwner(txid=1, path="/a", user="", group="staff"))
    assert (row["username"], row["groupname"]) == (None, "staff")


def test_half_a_character_of_javas_does_not_end_the_job() -> None:
    assert row_of(namespace.Delete(txid=1, path="/a\ud800ä", timestamp_ms=0))["path"] == "/a\\ud800ä"


def test_no_column_of_fields_is_empty_for_every_op() -> None:
    rows = rows_of(sample_ops(), layout_version=-67)
    told = {name for row in rows for name, value in row.items() if value is not None}
    assert told == set(COLUMNS)
