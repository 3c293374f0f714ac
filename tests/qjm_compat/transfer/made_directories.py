"""Directories of segment files as a NameNode leaves them, made up."""

from __future__ import annotations

from pathlib import Path

from qjm_compat.edits import encode_op, segment_bytes
from qjm_compat.edits.ops.attributes import SetReplication
from qjm_compat.transfer.files.names import finalized_name, in_progress_name

LAYOUT = -63
NAMESPACE_ID, CLUSTER_ID = 12345, "CID-made-up"


def frame(txid: int, path_bytes: int = 20) -> bytes:
    op = SetReplication(txid=txid, path="/" + "p" * (path_bytes - 1), replication=txid % 100)
    return encode_op(op, LAYOUT)


def frames(first_txid: int, last_txid: int, path_bytes: int = 20) -> bytes:
    return b"".join(frame(txid, path_bytes) for txid in range(first_txid, last_txid + 1))


def version(folder: Path, namespace_id: int = NAMESPACE_ID, layout_version: int = LAYOUT) -> None:
    (folder / "VERSION").write_text(
        "#Sat Nov 21 09:14:29 UTC 2026\n"
        f"namespaceID={namespace_id}\nstorageType=JOURNAL_NODE\ncTime=0\n"
        f"clusterID={CLUSTER_ID}\nlayoutVersion={layout_version}\n"
    )


def finalized(folder: Path, first_txid: int, last_txid: int, path_bytes: int = 20) -> Path:
    path = folder / finalized_name(first_txid, last_txid)
    path.write_bytes(segment_bytes(LAYOUT, [frames(first_txid, last_txid, path_bytes)]))
    return path


def in_progress(folder: Path, first_txid: int, last_txid: int, torn: bytes = b"") -> Path:
    """One that was being written: padded, and with `torn` behind its last op."""
    path = folder / in_progress_name(first_txid)
    content = frames(first_txid, last_txid) + torn
    path.write_bytes(segment_bytes(LAYOUT, [content], padding=True))
    return path


def made_directory(folder: Path) -> Path:
    """Two finalized segments and one in progress, txids 1 to 30."""
    current = folder / "current"
    current.mkdir(parents=True)
    version(current)
    finalized(current, 1, 10)
    finalized(current, 11, 20)
    in_progress(current, 21, 30)
    return current
