"""A program of somebody who uses the package: two type checkers read it with all that they have (`test_typing.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from bookledger import (
    ClientConfig,
    Columns,
    Cursor,
    Entry,
    JournalConfig,
    LedgerClient,
    LedgerRecord,
    Log,
    LogWriter,
    QuorumJournalManager,
    aio,
    errors,
    metadata_uri_of,
)


def write(uri: str, payloads: list[bytes]) -> int:
    with (
        LedgerClient(uri, config=ClientConfig(read_ahead_pages=2)) as client,
        client.create_ledger(ensemble_size=3, custom_metadata={"name": b"x"}) as writer,
    ):
        first: int = writer.append(b"first")
        future: Future[int] = writer.append_async(b"second")
        for payload in payloads:
            writer.append(payload)
        return first + future.result()


def connected(path: Path) -> LedgerClient:
    try:
        uri: str = metadata_uri_of(path)
        config: ClientConfig = ClientConfig.from_file(str(path))
    except errors.BadSettings as error:
        raise SystemExit(str(error)) from error
    return LedgerClient(uri, config=config)


def journal_of_file(path: Path) -> QuorumJournalManager:
    return QuorumJournalManager(metadata_uri_of(path), "ns1", config=JournalConfig.from_file(path))


def read(client: LedgerClient, ledger_id: int) -> Iterator[str]:
    reader = client.open_ledger(ledger_id, recovery=False)
    closed_at: datetime | None = reader.closed_at
    yield "open" if closed_at is None else closed_at.isoformat()
    for entry in reader:
        yield entry.payload.decode()
    for columns in reader.pages():
        page: Columns = columns
        yield str(page.last_entry)
    news: list[Entry] = reader.poll(5, timeout=1.0)
    yield from (str(entry.entry_id) for entry in news)
    with closing(reader.tail(first_entry=0, timeout=0)) as entries:
        yield from (str(entry.entry_id) for entry in entries)


def payload_of(client: LedgerClient, ledger_id: int, entry_id: int) -> bytes | None:
    try:
        return client.open_ledger(ledger_id).read_entry(entry_id).payload
    except errors.NotFound:
        return None
    except errors.Unconfirmed as error:
        first: int | None = error.first_unconfirmed
        raise SystemExit(f"{error}, from entry {first} on") from error


def closed_today(client: LedgerClient) -> list[LedgerRecord]:
    now = datetime.now(UTC)
    return [
        one
        for one in client.list_ledgers()
        if one.closed_at is not None and one.closed_at.date() == now.date()
    ]


async def read_at_once(uri: str, ledger_id: int) -> bytes:
    async with aio.LedgerClient(uri) as client:
        reader = await client.open_ledger(ledger_id)
        made_at: datetime | None = reader.created_at
        payloads = [entry.payload async for entry in reader if made_at is not None]
        return b"".join(payloads)


def records(client: LedgerClient) -> list[bytes]:
    with client.election("writers").lead(timeout=1.0) as term:
        writer: LogWriter = client.log("events", create=True).writer(term=term)
        position: int = writer.append(b"x", key=b"k") + writer.append_async(b"y").result()
        writer.flush()
        writer.close()
    log: Log = client.log("events")
    cursor: Cursor = log.cursor("reader", start=position)
    names: list[str] = [name for name, _ in client.list_logs()]
    assert names and cursor.lag().records >= 0
    return [record.payload for record in log.read(log.first_position(), log.end())]


def journal(uri: str) -> list[int]:
    with QuorumJournalManager(uri, "ns1") as manager:
        return [stream.first_txid for stream in manager.select_input_streams(1)]
