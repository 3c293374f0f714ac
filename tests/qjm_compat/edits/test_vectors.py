"""Ops have the bytes that Hadoop's own tool writes for them, and the fields that it reads (see `sample_ops`)."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from qjm_compat.edits import OPS, EditOp, decode_op, encode_op, op_to_xml
from qjm_compat.edits.fields.blocks import Block
from qjm_compat.edits.fields.permissions import Permission
from qjm_compat.edits.ops.files import Add, Truncate
from tests.qjm_compat.edits.real_segments import content_of
from tests.qjm_compat.edits.sample_ops import newer_ops, sample_ops

FOLDER = Path(__file__).parent
SAMPLES = {-63: sample_ops(), -67: [*sample_ops(), *newer_ops()]}
NO_LONGER_WRITTEN = {"OP_SET_NS_QUOTA", "OP_CLEAR_NS_QUOTA"}
CASES = [(layout_version, op) for layout_version, ops in SAMPLES.items() for op in ops]


def vectors(layout_version: int) -> dict[int, bytes]:
    """Hadoop's frames, by txid."""
    lines = (FOLDER / f"vectors{layout_version}.txt").read_text().splitlines()
    frames = [bytes.fromhex(line.split()[1]) for line in lines]
    return {int.from_bytes(frame[5:13], "big"): frame for frame in frames}


@pytest.mark.parametrize(("layout_version", "op"), CASES, ids=lambda case: getattr(case, "name", case))
def test_an_op_is_written_and_read_as_hadoop_does_it(layout_version: int, op: EditOp) -> None:
    frame = vectors(layout_version)[op.txid]
    assert encode_op(op, layout_version) == frame
    assert decode_op(frame, layout_version) == op


@pytest.mark.parametrize("layout_version", SAMPLES)
def test_an_op_says_in_xml_what_hadoop_says_of_it(layout_version: int) -> None:
    edits = ElementTree.parse(FOLDER / f"vectors{layout_version}.xml").findall("RECORD")
    for op, record in zip(SAMPLES[layout_version], edits, strict=True):
        assert content_of(op_to_xml(op, layout_version)) == content_of(record)


def test_there_is_a_vector_for_every_op_that_is_still_written() -> None:
    assert {op.name for op in SAMPLES[-67]} == {cls.name for cls in OPS.values()} - NO_LONGER_WRITTEN


# What a NameNode of Hadoop 3.4.1 wrote, and oev cannot write again.
LOGGED = {
    "2e0000006300000000000008b400082f646174612f32300023444653436c69656e745f4e4f4e4d41505245445543455f313834393937363437"
    "395f3100093132372e302e302e310000000000000032000001a1ffcd8721010000000040000015788e041db036991c": Truncate(
        txid=2228,
        path="/data/20",
        client_name="DFSClient_NONMAPREDUCE_1849976479_1",
        client_machine="127.0.0.1",
        length_bytes=50,
        timestamp_ms=1795293021985,
        blocks=(Block(1073741845, 120, 1053),),
    ),
    "000000009e00000000000008dc00000000000043a1000a2f646174612f6c617a790001000001a1ffcd8c50000001a1ffcd8c50000000000010"
    "00000000000004726f6f740a737570657267726f757001a400000000000023444653436c69656e745f4e4f4e4d41505245445543455f313834"
    "393937363437395f3100093132372e302e302e31000f00001004f4403a7b514cd1ba55e170fd8a345100000757bb6799f3": Add(
        txid=2268,
        inode_id=17313,
        path="/data/lazy",
        replication=1,
        mtime_ms=1795293023312,
        atime_ms=1795293023312,
        block_size=1048576,
        blocks=(),
        permission=Permission("root", "supergroup", 0o644),
        acl=(),
        client_name="DFSClient_NONMAPREDUCE_1849976479_1",
        client_machine="127.0.0.1",
        storage_policy_id=15,
        rpc_client_id=bytes.fromhex("04f4403a7b514cd1ba55e170fd8a3451"),
        rpc_call_id=1879,
    ),
}


@pytest.mark.parametrize("frame", LOGGED, ids=lambda frame: LOGGED[frame].name)
def test_an_op_of_a_name_node_is_read_and_written_as_it_was_logged(frame: str) -> None:
    assert decode_op(bytes.fromhex(frame), -67) == LOGGED[frame]
    assert encode_op(LOGGED[frame], -67).hex() == frame
