"""Errors of journals at the command line: words of ours, and Hadoop's name for them behind."""

from __future__ import annotations

import re

import pytest

import qjm_compat.hadoop.errors
import qjm_compat.transfer.errors
from bookledger.cli import main as command_line
from bookledger.cli.messages.journal_errors import MEANINGS, describe_journal_error, describe_outage
from metadata.errors import StoreUnavailable
from qjm_compat.error_translation import metadata_errors
from qjm_compat.errors import (
    JournalError,
    JournalNotFormatted,
    JournalOutOfSync,
    JournalUnavailable,
    QuorumFailed,
    QuorumTimeout,
)
from qjm_compat.hadoop.client.connection import error_named
from tests.bookledger.test_portable_errors import every_class, example_of

assert qjm_compat.hadoop.errors and qjm_compat.transfer.errors  # their classes are among those below

JOURNALS = [kind for kind in every_class() if issubclass(kind, JournalError)]
HADOOP_SAYS = re.compile(r"org\.apache|java\.\w+\.|Got too many exceptions|exceptions thrown|\n")


@pytest.mark.parametrize("kind", JOURNALS, ids=lambda kind: kind.__name__)
def test_every_error_of_a_journal_ends_with_hadoops_name_for_it(
    kind: type[JournalError], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = example_of(kind)
    assert isinstance(error, JournalError)

    def fails(_: object) -> int:
        raise error

    monkeypatch.setattr(command_line, "_run", fails)
    with pytest.raises(SystemExit) as ended:
        command_line.main([])
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert said == f"bookledger: {describe_journal_error(error)}\n"
    name = error.java_class.rpartition(".")[2]
    assert said.endswith(f" ({name})\n") and not HADOOP_SAYS.search(said.removesuffix("\n"))


@pytest.mark.parametrize("kind", MEANINGS, ids=lambda kind: kind.__name__)
def test_what_an_error_means_stands_in_front_and_what_was_said_behind(kind: type[JournalError]) -> None:
    error = example_of(kind)
    assert isinstance(error, JournalError)
    told = describe_journal_error(error)
    assert told.startswith(f"{MEANINGS[kind]}: ")
    if not isinstance(error, QuorumFailed):
        assert str(error) in told, "what operators search logs for is still there"


def test_every_class_of_the_journals_own_has_words() -> None:
    own = {kind for kind in JOURNALS if kind.__module__ == "qjm_compat.errors"} - {JournalError}
    assert own == set(MEANINGS)


def test_of_a_quorum_every_acceptor_is_told_with_hadoops_names() -> None:
    said = {
        "jn1": JournalNotFormatted("ns1"),
        "jn2": JournalOutOfSync("Can't write, no segment open ; journal id: ns1"),
        "jn3": OSError("connection refused"),
    }
    assert describe_journal_error(QuorumFailed("startLogSegment(5)", 2, 3, said)) == (
        "too few acceptors succeeded: startLogSegment(5); "
        f"jn1: {MEANINGS[JournalNotFormatted]}: Journal ns1 not formatted ; journal id: ns1 "
        "(JournalNotFormattedException); "
        f"jn2: {MEANINGS[JournalOutOfSync]}: Can't write, no segment open ; journal id: ns1 "
        "(JournalOutOfSyncException); "
        "jn3: connection refused (QuorumException)"
    )


def test_of_a_quorum_that_kept_silent_it_is_told_who() -> None:
    told = describe_journal_error(QuorumTimeout("newEpoch(2)", 1.5, "jn1, jn2", {}))
    assert "1500 ms" in told and "jn1, jn2" in told and told.endswith(" (IOException)")


def unavailable(said: str) -> JournalUnavailable:
    with pytest.raises(JournalUnavailable) as raised, metadata_errors():
        raise StoreUnavailable(said)
    return raised.value


def test_of_an_outage_only_the_cause_is_told_and_no_acceptor_where_there_is_one() -> None:
    etcd = "etcd did not answer within 5 s: 127.0.0.1:23790: Stream removed"
    alone = QuorumFailed("getJournaledEdits", 1, 1, {"main": unavailable(etcd)})
    assert describe_outage(alone, is_alone=True) == describe_outage(unavailable(etcd), is_alone=True) == etcd
    said = {
        "a": unavailable(etcd),
        "b": JournalUnavailable("ledger 2 could not be read: b3: it did not answer"),
        "c": unavailable(etcd),
    }
    assert describe_outage(QuorumFailed("getJournaledEdits", 2, 3, said), is_alone=False) == (
        f"a, c: {etcd}; b: ledger 2 could not be read: b3: it did not answer"
    )
    silent = QuorumTimeout("getJournaledEdits", 1.5, "a, b", {"c": unavailable(etcd)})
    assert describe_outage(silent, is_alone=False) == describe_journal_error(silent), "it says who is silent"


def test_what_came_from_a_journal_node_is_told_so_too() -> None:
    package = "org.apache.hadoop.hdfs.qjournal.protocol."
    error = error_named(f"{package}JournalOutOfSyncException", "Writer out of sync")
    assert describe_journal_error(error) == (
        f"{MEANINGS[JournalOutOfSync]}: Writer out of sync (JournalOutOfSyncException)"
    )
    unknown = error_named("org.example.OddException", "it is odd")
    assert describe_journal_error(unknown) == "it is odd (OddException)"
