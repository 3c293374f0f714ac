"""`journal dump --xml` is read back as what the log holds, whatever characters a path has."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from qjm_compat.edits import encode_op, segment_bytes
from qjm_compat.edits.ops.attributes import SetReplication
from qjm_compat.transfer.files.names import finalized_name
from tests.qjm_compat.transfer.made_directories import LAYOUT
from tests.support.command_line import bookledger

PATHS = ("/a\rb", "/a\r\nb", "/tab\tnewline\nhere", "/<&>\"'", "/trailing \r", "/Ωü\u2028\x85", "/ />")


def test_every_path_is_read_back_as_it_was(tmp_path: Path) -> None:
    ops = [
        encode_op(SetReplication(txid=n, path=path, replication=1), LAYOUT) for n, path in enumerate(PATHS, 1)
    ]
    file = tmp_path / finalized_name(1, len(PATHS))
    file.write_bytes(segment_bytes(LAYOUT, ops))
    done = bookledger("journal", "dump", "--xml", str(file))
    assert (done.returncode, done.stderr) == (0, b"")
    assert tuple(element.text for element in ElementTree.fromstring(done.stdout).iter("PATH")) == PATHS
