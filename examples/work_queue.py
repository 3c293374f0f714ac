"""A work queue: one worker does the jobs in order, and the next worker takes over if it dies.

    python examples/work_queue.py put QUEUE        # each line of standard input is a job
    python examples/work_queue.py work QUEUE       # does all queued jobs, then ends

Each job is done at least once: if a worker dies after doing a job and before recording it, the next worker repeats it.
"""

import os
import sys

from bookledger import LedgerClient
from bookledger.errors import LogFenced


def put(client: LedgerClient, queue: str) -> None:
    """Sends all jobs without waiting; all are on disk when this returns. Only one producer may put jobs at a time."""
    with client.log(f"{queue}.jobs", create=True).writer() as writer:
        for line in sys.stdin.buffer:
            writer.append_async(line.strip())
        writer.flush()


def work(client: LedgerClient, queue: str) -> None:
    """Records finished jobs in a log of its own, which it takes over from the previous worker."""
    jobs, done = client.log(f"{queue}.jobs", create=True), client.log(f"{queue}.done", create=True)
    with done.writer() as writer:
        for job in jobs.read(start=writer.next_position):  # one record for each finished job
            print("doing", job.payload.decode(), flush=True)
            writer.append(b"")


def main() -> None:
    what, queue = sys.argv[1:]
    with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        put(client, queue) if what == "put" else work(client, queue)


if __name__ == "__main__":
    try:
        main()
    except LogFenced as error:
        sys.exit(f"{error}: this worker must stop")
