"""Options are understood or refused by name, never ignored."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from spark.edits.options import EditsOptions
from spark.planning.options import LedgerOptions
from spark.planning.selection import BadSelection, IdRange

URI = {"metadata": "sqlite:///m.db"}
JOURNAL = {**URI, "journal": "ns1"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "metadata is required"),
        ({"metadata": ""}, "metadata is required"),
        ({**URI, "ledger": "7"}, "'ledger' is not known.*ledgers"),
        ({**URI, "password": "hunter2"}, "'password' is not known"),
        ({**URI, "custom.": "x"}, "'custom.' is not known"),
        ({**URI, "ledgers": "7,x"}, "'x' is not a ledger or a range of ledgers"),
        ({**URI, "ledgers": "7", "journal": "ns1"}, "not both"),
        ({**JOURNAL, "custom.owner": "ada"}, "custom.owner applies to ledgers, not to a journal"),
        ({**JOURNAL, "recover": "true"}, "recover applies to ledgers, not to a journal"),
        ({**URI, "acceptors": "a,b"}, "acceptors is only valid with journal"),
        ({**JOURNAL, "acceptors": "a,,b"}, "acceptors must be a list of names"),
        ({**URI, "recover": "yes"}, "recover must be true or false"),
        ({**URI, "columns": "payload,size"}, "no column 'size'.*payload"),
        ({**URI, "columns": "payload,payload"}, "each only once"),
        ({**URI, "partition_bytes": "0"}, "partition_bytes must be a number of at least 1"),
        ({**URI, "partitions_min": "-1"}, "partitions_min must be a number"),
        ({**URI, "max_bytes_per_trigger": "1m"}, "max_bytes_per_trigger must be a number"),
    ],
)
def test_a_wrong_option_of_ledgers_is_refused_by_name(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadSelection, match=complaint) as refused:
        LedgerOptions.of(given)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (URI, "journal is required"),
        ({**JOURNAL, "ledgers": "7"}, "'ledgers' is not known"),
        ({**JOURNAL, "custom.owner": "x"}, "'custom.owner' is not known"),
        ({**JOURNAL, "from_txid": "x"}, "from_txid must be a number"),
    ],
)
def test_a_wrong_option_of_edits_is_refused_by_name(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadSelection, match=complaint):
        EditsOptions.of(given)


def test_a_stream_refuses_to_recover_and_a_batch_read_a_rate_limit() -> None:
    limited = LedgerOptions.of({**URI, "max_bytes_per_trigger": "1000"})
    recovering = LedgerOptions.of({**URI, "recover": "true"})
    assert limited.for_stream() is limited and recovering.for_batch() is recovering
    with pytest.raises(
        BadSelection, match="recover does not apply to streams, which wait until a ledger is closed"
    ):
        recovering.for_stream()
    with pytest.raises(BadSelection, match="max_bytes_per_trigger only applies to readStream: leave it out"):
        limited.for_batch()


def test_names_of_options_have_no_case() -> None:
    options = LedgerOptions.of({"Metadata": "sqlite:///m.db", "LEDGERS": "7", "custom.Owner": "Ada"})
    assert options.selection.ids == (IdRange(7, 7),)
    assert options.selection.custom == {"owner": b"Ada"}


def test_options_left_out_have_their_defaults() -> None:
    options = LedgerOptions.of(URI)
    assert options.columns == ("ledger_id", "entry_id", "payload")
    assert options.acceptors == ("main",)
    assert options.max_bytes_per_trigger is None
    assert not options.selection.recover
    edits = EditsOptions.of({**JOURNAL, "acceptors": "a, b"})
    assert (edits.from_txid, edits.acceptors) == (None, ("a", "b"))


def test_a_schema_chooses_columns_and_must_fit() -> None:
    options = LedgerOptions.of(URI)
    assert options.columns_of(StructType().add("bytes", "long").add("entry_id", "long")) == (
        "bytes",
        "entry_id",
    )
    with pytest.raises(BadSelection, match="no column 'size'"):
        options.columns_of(StructType().add("size", "long"))
    with pytest.raises(BadSelection, match="payload has type binary, not string"):
        options.columns_of(StructType().add("payload", "string"))
    with pytest.raises(BadSelection, match="name at least one column"):
        options.columns_of(StructType())
