"""A work queue: jobs are done in order by one worker, and by the next one if it dies.

    python examples/work_queue.py put QUEUE        # a line of standard input is a job
    python examples/work_queue.py work QUEUE       # does all jobs there are, then ends

A job is done at least once: a worker that dies between doing a job and saying so leaves it to the next worker.
"""

import os
import sys

from bookledger import LedgerClient, WriteHandle
from bookledger.errors import LedgerFenced


def ledgers(client: LedgerClient, queue: str, kind: str) -> list[int]:
    wanted = queue.encode()
    return sorted(r.ledger_id for r in client.list_ledgers() if r.custom_metadata.get(kind) == wanted)


def put(client: LedgerClient, queue: str) -> None:
    """A batch of jobs is a ledger; all of them travel together, and all are on disk when this returns."""
    with client.create_ledger(custom_metadata={"jobs": queue.encode()}) as writer:
        for line in sys.stdin.buffer:
            writer.append_async(line.strip())
        writer.flush()


def become_the_worker(client: LedgerClient, queue: str) -> tuple[WriteHandle, set[bytes]]:
    """Where this worker says what it has done, and what others said before.

    Opening their ledgers fences them. Two that begin at once find each other: each looks after it has a ledger of its
    own, and the one with the lower id is fenced by the other.
    """
    done_by_me = client.create_ledger(custom_metadata={"done": queue.encode()})
    done = set()
    for ledger_id in ledgers(client, queue, "done"):
        if ledger_id > done_by_me.ledger_id:
            raise LedgerFenced(done_by_me.ledger_id, "a newer worker has begun")
        if ledger_id < done_by_me.ledger_id:
            done |= {entry.payload for entry in client.open_ledger(ledger_id).read()}
    return done_by_me, done


def work(client: LedgerClient, queue: str) -> None:
    done_by_me, done = become_the_worker(client, queue)
    with done_by_me:
        for ledger_id in ledgers(client, queue, "jobs"):
            if not client.describe_ledger(ledger_id).is_closed:  # and what follows must wait for it
                print(f"batch {ledger_id} is not complete: its producer is at work, or has died; if it has:")
                print(f"  bookledger ledger recover {ledger_id}")
                return
            for entry in client.open_ledger(ledger_id).read():
                name = b"%d:%d" % (ledger_id, entry.entry_id)
                if name not in done:
                    print("doing", entry.payload.decode(), flush=True)
                    done_by_me.append(name)


def main() -> None:
    what, queue = sys.argv[1:]
    with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        put(client, queue) if what == "put" else work(client, queue)


if __name__ == "__main__":
    try:
        main()
    except LedgerFenced as error:
        sys.exit(f"another worker has taken over: {error}")
