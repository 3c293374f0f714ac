"""An op of each kind that is still written; `vectors-63.txt` and `vectors-67.txt` have the bytes of each.

The bytes were made by `hdfs oev -p binary` of Hadoop 2.7.3 and 3.4.1 from what `op_to_xml` says of these ops, and
`vectors-63.xml` and `vectors-67.xml` by `hdfs oev -p xml` from the bytes. So the ops say only what oev's XML can: no
attributes and no storage policy of a new file, a directory's atime is its mtime, no block of a truncated file.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from qjm_compat.edits import EditOp
from qjm_compat.edits.fields.blocks import Block
from qjm_compat.edits.fields.permissions import AclChange, AclEntry, AclScope, AclType, Permission
from qjm_compat.edits.fields.xattrs import XAttr, XAttrChange, XAttrNamespace
from qjm_compat.edits.op import RetriedOp
from qjm_compat.edits.ops import (
    attributes,
    cache,
    erasure_coding,
    files,
    namespace,
    segments,
    snapshots,
    tokens,
)
from qjm_compat.edits.ops.cache import CacheDirective, CachePool
from qjm_compat.edits.ops.erasure_coding import ErasureCodingPolicy, ExtraOption
from qjm_compat.edits.ops.tokens import DelegationKey, DelegationToken

NOON_MS = 1_700_000_000_000
CLIENT = bytes(range(16))
PERMISSION = Permission("ada", "staff", 0o750)
BLOCKS = (Block(1073741825, 134217728, 1001), Block(1073741826, 17, 1002), Block(-99, 200, 40))
ACL = (
    AclEntry(AclScope.ACCESS, AclType.USER, 6, "grace"),
    AclEntry(AclScope.ACCESS, AclType.GROUP, 5),
    AclEntry(AclScope.DEFAULT, AclType.MASK, 7),
    AclEntry(AclScope.DEFAULT, AclType.OTHER, 0),
)
ATTRIBUTES = (
    XAttr(XAttrNamespace.USER, "note", b"\x00\xffsome bytes"),
    XAttr(XAttrNamespace.RAW, "hdfs.crypto", b""),
)
TOKEN = DelegationToken(0, "ada", "yarn", "oozie", NOON_MS, NOON_MS + 604_800_000, 77, -3)
DIRECTIVE = CacheDirective(5, "/hot", 3, "fast", NOON_MS)
POOL = CachePool("fast", "ada", "staff", 0o755, 1 << 40, 86_400_000)
POLICY = ErasureCodingPolicy("rs", 6, 3, 1024 * 1024, (ExtraOption("speed", "höchste"),))


SAMPLES: list[EditOp] = [
    files.Add(
        txid=1,
        inode_id=16386,
        path="/a/ünï €\0𝄞",
        replication=3,
        mtime_ms=NOON_MS,
        atime_ms=NOON_MS + 1,
        block_size=134217728,
        blocks=BLOCKS,
        permission=PERMISSION,
        acl=ACL,
        client_name="DFSClient_1",
        client_machine="10.0.0.7",
        overwrite=True,
        erasure_coding_policy_id=0,
    ),
    namespace.RenameOld(txid=2, source="/a", target="/b", timestamp_ms=NOON_MS),
    namespace.Delete(txid=3, path="/b", timestamp_ms=NOON_MS),
    namespace.Mkdir(
        txid=4,
        inode_id=16387,
        path="/dir",
        mtime_ms=NOON_MS,
        atime_ms=NOON_MS,
        permission=PERMISSION,
        acl=ACL,
        attributes=ATTRIBUTES,
    ),
    attributes.SetReplication(txid=5, path="/f", replication=2),
    attributes.SetPermissions(txid=6, path="/f", mode=0o1777),
    attributes.SetOwner(txid=7, path="/f", user="ada", group=""),
    files.Close(
        txid=8,
        inode_id=0,
        path="/f",
        replication=3,
        mtime_ms=NOON_MS,
        atime_ms=NOON_MS,
        block_size=134217728,
        blocks=BLOCKS,
        permission=PERMISSION,
    ),
    segments.SetGenstampV1(txid=9, genstamp=999),
    attributes.Times(txid=12, path="/f", mtime_ms=NOON_MS, atime_ms=-1),
    attributes.SetQuota(txid=13, path="/q", names=-1, space_bytes=1 << 50),
    namespace.Rename(
        txid=14, source="/c", target="/d", timestamp_ms=NOON_MS, options=(namespace.RenameOption.OVERWRITE,)
    ),
    namespace.ConcatDelete(txid=15, target="/t", sources=("/s1", "/s2", "/s3"), timestamp_ms=NOON_MS),
    namespace.Symlink(
        txid=16,
        inode_id=16388,
        path="/link",
        target="../somewhere",
        mtime_ms=NOON_MS,
        atime_ms=NOON_MS + 5,
        permission=PERMISSION,
    ),
    tokens.GetDelegationToken(txid=17, token=TOKEN, expires_ms=NOON_MS),
    tokens.RenewDelegationToken(txid=18, token=TOKEN, expires_ms=NOON_MS + 1),
    tokens.CancelDelegationToken(txid=19, token=TOKEN),
    tokens.UpdateMasterKey(txid=20, key=DelegationKey(-200, NOON_MS, b"\x01\x02\xfe")),
    files.ReassignLease(txid=21, lease_holder="DFSClient_1", path="/f", new_holder="HDFS_NameNode"),
    segments.EndLogSegment(txid=22),
    segments.StartLogSegment(txid=23),
    files.UpdateBlocks(txid=24, path="/f", blocks=BLOCKS),
    snapshots.CreateSnapshot(txid=25, root="/s", snapshot="s1"),
    snapshots.DeleteSnapshot(txid=26, root="/s", snapshot="s1"),
    snapshots.RenameSnapshot(txid=27, root="/s", old_name="s1", new_name="s2"),
    snapshots.AllowSnapshot(txid=28, root="/s"),
    snapshots.DisallowSnapshot(txid=29, root="/s"),
    segments.SetGenstampV2(txid=30, genstamp=1003),
    segments.AllocateBlockId(txid=31, block_id=1073741827),
    files.AddBlock(txid=32, path="/f", blocks=BLOCKS[:2]),
    cache.AddCacheDirective(txid=33, directive=DIRECTIVE),
    cache.RemoveCacheDirective(txid=34, directive_id=5),
    cache.AddCachePool(txid=35, info=POOL),
    cache.ModifyCachePool(txid=36, info=CachePool("fast", group="g")),
    cache.RemoveCachePool(txid=37, pool="fast"),
    cache.ModifyCacheDirective(txid=38, directive=CacheDirective(5, replication=1)),
    attributes.SetAcl(txid=39, change=AclChange("/f", ACL)),
    segments.RollingUpgradeStart(txid=40, started_ms=NOON_MS),
    segments.RollingUpgradeFinalize(txid=41, finalized_ms=NOON_MS),
    attributes.SetXAttr(txid=42, change=XAttrChange("/f", ATTRIBUTES[:1])),
    attributes.RemoveXAttr(txid=43, change=XAttrChange("/f", (XAttr(XAttrNamespace.TRUSTED, "gone"),))),
    attributes.SetStoragePolicy(txid=44, path="/f", policy_id=12),
    files.Truncate(
        txid=45,
        path="/f",
        client_name="DFSClient_1",
        client_machine="10.0.0.7",
        length_bytes=5,
        timestamp_ms=NOON_MS,
        blocks=(),
    ),
    files.Append(txid=46, path="/f", client_name="DFSClient_1", client_machine="10.0.0.7", new_block=True),
    attributes.SetQuotaByStorageType(
        txid=47, path="/q", storage_type=attributes.StorageType.ARCHIVE, space_bytes=1 << 40
    ),
]
"""In the order of their op codes; txids from 1 on."""

NEWER: list[EditOp] = [
    erasure_coding.AddErasureCodingPolicy(txid=48, policy=POLICY),
    erasure_coding.EnableErasureCodingPolicy(txid=49, policy_name="RS-6-3-1024k"),
    erasure_coding.DisableErasureCodingPolicy(txid=50, policy_name="RS-6-3-1024k"),
    erasure_coding.RemoveErasureCodingPolicy(txid=51, policy_name="RS-6-3-1024k"),
    snapshots.CreateSnapshot(txid=52, root="/s", snapshot="s1", mtime_ms=NOON_MS),
    attributes.SetQuotaByStorageType(
        txid=53, path="/q", storage_type=attributes.StorageType.NVDIMM, space_bytes=1
    ),
    namespace.Rename(
        txid=54,
        source="/c",
        target="/d",
        timestamp_ms=NOON_MS,
        options=(namespace.RenameOption.OVERWRITE, namespace.RenameOption.TO_TRASH),
    ),
    cache.AddCachePool(txid=55, info=CachePool("slow", default_replication=2)),
]
"""What only layout -67 has, also of ops that were there before."""


def called(first_call: int, ops: list[EditOp]) -> list[EditOp]:
    """The same ops, each asked for by a call of its own where it can say so; oev writes none of ops on blocks."""
    calls = itertools.count(first_call)
    return [
        replace(op, rpc_client_id=CLIENT, rpc_call_id=next(calls))
        if isinstance(op, RetriedOp) and not isinstance(op, files.UpdateBlocks | files.AddBlock)
        else op
        for op in ops
    ]


def sample_ops() -> list[EditOp]:
    return called(12, SAMPLES)


def newer_ops() -> list[EditOp]:
    return called(30, NEWER)
