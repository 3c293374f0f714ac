"""Making ledgers: ids, metadata, passwords, and where their metadata is kept."""

from __future__ import annotations

import pytest

import ledgers
from ledgers import LedgerExists
from ledgers.aio import LedgerClient
from metadata.errors import BadMetadataUri


async def test_a_chosen_id_is_given_once_and_custom_metadata_is_kept(client: LedgerClient) -> None:
    async with await client.create_ledger(ledger_id=42, custom_metadata={"app": b"\x00x"}):
        pass
    assert (await client.describe_ledger(42)).custom_metadata == {"app": b"\x00x"}
    with pytest.raises(LedgerExists):
        await client.create_ledger(ledger_id=42)
    with pytest.raises(ValueError, match="custom metadata"):
        await client.create_ledger(custom_metadata={"big": bytes(70_000)})


async def test_ledgers_are_listed_by_all_of_the_custom_metadata_that_is_wanted(client: LedgerClient) -> None:
    made = {}
    for name, custom in (
        ("none", {}),
        ("a", {"log": b"a"}),
        ("more", {"log": b"a", "shard": b"1"}),
        ("b", {"log": b"b"}),
    ):
        async with await client.create_ledger(custom_metadata=custom) as writer:
            made[name] = writer.ledger_id

    async def found(custom: dict[str, bytes] | None) -> list[int]:
        return [record.ledger_id async for record in client.list_ledgers(custom=custom)]

    assert await found({"log": b"a"}) == [made["a"], made["more"]]
    assert await found({"log": b"a", "shard": b"1"}) == [made["more"]]
    assert await found({"log": b""}) == await found({"other": b"a"}) == []
    assert await found({}) == await found(None) == list(made.values())


def test_a_wrong_uri_says_what_to_write() -> None:
    with pytest.raises(BadMetadataUri, match="write etcd://HOST:PORT"):
        ledgers.LedgerClient("nonsense")
