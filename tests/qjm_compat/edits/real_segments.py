"""Segments that real NameNodes wrote, with what oev says of them; skipped where they are not."""

from __future__ import annotations

import gzip
import os
import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

FOLDER = Path(
    os.environ.get("BOOKLEDGER_HDFS_EDITS")
    or Path(__file__).parents[4] / "shared" / "data" / "hdfs-edits"  # beside the repository
)
NAMES = (
    "all-ops",
    "edits_0000000000000000001-0000000000000009022",
    "edits_0000000000000009023-0000000000000012829",
    "edits_inprogress_0000000000000012830",
)

needs_segments = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason="no segments of a real NameNode here: BOOKLEDGER_HDFS_EDITS names their folder",
)


@cache
def segment(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def records_of(name: str) -> list[Element]:
    """The RECORD elements of oev's XML."""
    packed = FOLDER / f"{name}.xml.gz"
    text = gzip.decompress(packed.read_bytes()) if packed.exists() else (FOLDER / f"{name}.xml").read_bytes()
    return ElementTree.fromstring(text).findall("RECORD")


def counts_of(name: str) -> dict[str, int]:
    """How many ops of each name oev counted."""
    found = re.findall(r"^ *(OP_\w+) .*: (\d+)$", (FOLDER / f"{name}.stats").read_text(), re.MULTILINE)
    return {op: int(count) for op, count in found}


def content_of(element: Element) -> tuple[str, object]:
    """An element as a value that can be compared: its tag, and its text or its children."""
    if len(element):
        return element.tag, [content_of(child) for child in element]
    return element.tag, element.text or ""
