"""Segments as JournalNodes serve them, read by Hadoop's own viewer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.error import HTTPError
from urllib.request import urlopen
from xml.etree import ElementTree

from tests.support.hadoop.driver import Driver


class Served(Protocol):
    """A JournalNode, as far as its pages go."""

    http_address: str


GONE, NOT_FOUND = 410, 404


def check_served_segments(
    driver: Driver, nodes: Sequence[Served], journal_id: str, directory: Path
) -> tuple[int, int]:
    """Reads every segment that each node serves: each transaction is there once and in order.

    The first and the last transaction of the node that has most.
    """
    return max(
        (_check_node(driver, node, journal_id, directory) for node in nodes), key=lambda found: found[1]
    )


def _check_node(driver: Driver, node: Served, journal_id: str, directory: Path) -> tuple[int, int]:
    first, next_txid = 0, 1
    while True:
        file = directory / f"served-{next_txid}"
        status = _fetch(node, journal_id, next_txid, file)
        if status == GONE:
            next_txid += 1
        elif status == NOT_FOUND:
            return first, next_txid - 1
        else:
            first = first or next_txid
            next_txid = _check_file(driver, file, next_txid)


def _check_file(driver: Driver, file: Path, first_txid: int) -> int:
    """The transaction after its last."""
    records = ElementTree.fromstring(driver.view(file)).findall("RECORD")
    txids = [int(one.findtext("DATA/TXID") or 0) for one in records]
    assert txids == list(range(first_txid, first_txid + len(txids))) != [], file
    return txids[-1] + 1


def _fetch(node: Served, journal_id: str, txid: int, file: Path) -> int:
    url = f"http://{node.http_address}/getJournal?jid={journal_id}&segmentTxId={txid}"
    try:
        with urlopen(url) as reply:
            file.write_bytes(reply.read())
            return int(reply.status)
    except HTTPError as error:
        if error.code not in (GONE, NOT_FOUND):
            raise
        return error.code
