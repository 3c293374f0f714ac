"""The calls of a recording as messages, and answers as a recording has them; see test_recorded_calls."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.hadoop_rpc import INTER_PROTOCOL, JOURNAL_PROTOCOL
from qjm_compat.hadoop.wire.methods import METHODS
from tests.qjm_compat.acceptor.one_writer import edits

NAMESPACE_ID = 7
LINE = re.compile(
    r"(?P<others>\* the others get )?(?P<method>\w+) (?P<fields>\{.*?\}) e=(?P<epoch>\d*) s=(?P<serial>\d*) "
    r"c=(?P<committed>\d*) ns=(?P<service>\w*) -> (?P<answer>.*?)(?:   x(?P<times>\d+))?"
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One line. `answer` is JSON, "-" for an empty one, or the class and the words of an error."""

    method: str
    fields: dict[str, Any]
    epoch: int | None
    serial: int
    committed: int | None
    service: str
    answer: str
    only_others: bool

    @property
    def protocol(self) -> str:
        return INTER_PROTOCOL if self.method in METHODS[INTER_PROTOCOL] else JOURNAL_PROTOCOL


NAMES = {
    "bytes": "records",
    "end": "end_txid",
    "epoch": "epoch",
    "first": "first_txid",
    "force": "force",
    "inProgress": "in_progress",
    "inProgressOk": "in_progress_ok",
    "lv": "layout_version",
    "max": "max_txns",
    "n": "num_txns",
    "nsInfo": "namespace",
    "prev": "previous",
    "sInfo": "storage",
    "segment": "segment_txid",
    "since": "since_txid",
    "start": "start_txid",
    "state": "state",
    "storage": "storage",
    "target": "target_layout_version",
    "txid": "txid",
    "url": "from_url",
}
"""Of fields, by what a recording calls them."""


@dataclass
class Facts:
    """What stands for the placeholders of a recording. `epochs` are ours by those that were recorded."""

    source_address: str
    c_time: int = 0
    cluster_id: str = ""
    epochs: dict[int, int] = field(default_factory=dict)
    edits: dict[int, bytes] = field(default_factory=dict)

    def recorded(self, match: re.Match[str]) -> Recorded:
        numbers = match["fields"].replace(": N", f": {NAMESPACE_ID}").replace(": T", f": {self.c_time}")
        return Recorded(
            match["method"],
            json.loads(numbers),
            int(match["epoch"]) if match["epoch"] else None,
            int(match["serial"] or 0),
            int(match["committed"]) if match["committed"] else None,
            match["service"],
            match["answer"].replace(": T", f": {self.c_time}"),
            match["others"] is not None,
        )

    def message(self, line: Recorded) -> Any:
        """The call of a line, as its NameNode made it."""
        kind = METHODS[line.protocol][line.method].message
        fields = {NAMES[name]: self._value(name, value) for name, value in line.fields.items()}
        if "records" in fields:
            fields["records"] = self.records(line)
        named = {"journal_id": {"identifier": "ns1"}, "name_service_id": line.service or None}
        if line.epoch is not None:
            told = {"epoch": self.epochs[line.epoch], "serial": line.serial, "committed_txid": line.committed}
            fields["info"] = named | told
        return kind(
            **fields, **{name: one for name, one in named.items() if name in kind.DESCRIPTOR.fields_by_name}
        )

    def _value(self, name: str, value: Any) -> Any:
        match name:
            case "nsInfo":
                self.cluster_id = value["st"]["clusterId"]
                namespace = {
                    "build_version": "b",
                    "unused": 0,
                    "block_pool_id": "BP-1",
                    "software_version": "3.4.1",
                }
                return namespace | {"storage": storage_info(value["st"])}
            case "storage" | "prev" | "sInfo":
                return storage_info(value)
            case "state":
                return {NAMES[one]: number for one, number in value.items()}
            case "url":
                return value.replace("HOST:PORT", self.source_address).partition("&storageInfo")[0]
            case "epoch":
                return self.epochs[value]
        return value

    def records(self, line: Recorded) -> bytes:
        assert line.epoch is not None
        first, count = line.fields["first"], line.fields["n"]
        for txid in range(first, first + count):
            self.edits.setdefault(txid, b"")
            self.edits[txid] = edits(txid, txid, self.epochs[line.epoch])
        return b"".join(self.edits[txid] for txid in range(first, first + count))


def storage_info(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "layout_version": found["layoutVersion"] & 0xFFFFFFFF,
        "namespace_id": found["nsId"],
        "cluster_id": found["clusterId"],
        "c_time": found["cTime"],
    }


def manifest(found: pb.Manifest) -> dict[str, Any]:
    logs = [f"{log.start_txid}-{log.end_txid}{'*' * log.in_progress}" for log in found.logs]
    return {"committed": found.committed_txid} | ({"logs": logs} if logs else {})


def prepared(found: pb.PrepareReply) -> dict[str, Any]:
    segment = found.segment
    told = {"start": segment.start_txid, "end": segment.end_txid, "inProgress": int(segment.in_progress)}
    return {"seg": told, "lastWriter": found.last_writer_epoch, "committed": found.last_committed_txid}
