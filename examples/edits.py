"""A journal of edits, as a NameNode keeps it: one process writes it, others follow it, and another one may take it
over.

    python examples/edits.py write JOURNAL COUNT   # becomes the writer, and writes COUNT edits
    python examples/edits.py follow JOURNAL TXID   # prints edits up to this one
"""

import os
import sys
import time

from bookledger import NamespaceInfo, QuorumJournalManager
from bookledger.errors import QuorumFailed
from qjm_compat import edits

EDITS_A_SEGMENT = 10
LOOK_AGAIN_SECONDS = 0.1


def write(journal: QuorumJournalManager, count: int) -> None:
    """Fences the previous writer, and continues after the last edit."""
    if not journal.is_formatted():
        journal.format(NamespaceInfo(namespace_id=1, cluster_id="CID-example"))
    journal.recover_unfinalized_segments()
    last = max((stream.last_txid for stream in journal.select_input_streams(1)), default=0)
    for first in range(last + 1, last + 1 + count, EDITS_A_SEGMENT):
        end = min(first + EDITS_A_SEGMENT, last + 1 + count) - 1
        with journal.start_log_segment(first) as out:
            for txid in range(first, end + 1):
                out.write(edits.ops.SetReplication(txid=txid, path=f"/files/{txid}", replication=3))
            out.set_ready_to_flush()
            out.flush()  # on the disks of a quorum when it returns
        journal.finalize_log_segment(first, end)
        print(f"{first} to {end}", flush=True)


def follow(journal: QuorumJournalManager, through: int) -> None:
    while not journal.is_formatted():  # its writer has not started yet
        time.sleep(LOOK_AGAIN_SECONDS)
    for op in journal.tail(1):
        print(op.txid, edits.op_to_json(op)["path"], flush=True)
        if op.txid == through:
            return


def main() -> None:
    what, name, number = sys.argv[1:]
    with QuorumJournalManager(os.environ["BOOKLEDGER_METADATA"], name) as journal:
        (write if what == "write" else follow)(journal, int(number))


if __name__ == "__main__":
    try:
        main()
    except QuorumFailed as error:
        sys.exit(f"another writer has taken over, or too few acceptors answer: {error}")
