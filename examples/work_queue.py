"""A work queue: jobs are done in order by one worker, and by the next one if it dies.

    python examples/work_queue.py put QUEUE        # a line of standard input is a job
    python examples/work_queue.py work QUEUE       # does all jobs there are, then ends

A job is done at least once: a worker that dies between doing a job and saying so leaves it to the next worker.
"""

import os
import sys

from bookledger import LedgerClient
from bookledger.errors import LogFenced


def put(client: LedgerClient, queue: str) -> None:
    """All jobs travel together, and all are on disk when this returns. One producer puts at a time."""
    with client.log(f"{queue}.jobs", create=True).writer() as writer:
        for line in sys.stdin.buffer:
            writer.append_async(line.strip())
        writer.flush()


def work(client: LedgerClient, queue: str) -> None:
    """Says which jobs it has done in a log of its own, which it takes over from the worker before it."""
    jobs, done = client.log(f"{queue}.jobs", create=True), client.log(f"{queue}.done", create=True)
    with done.writer() as writer:
        for job in jobs.read(start=writer.next_position):  # as many are done as it has records
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
        sys.exit(f"{error}: this one has to stop")
