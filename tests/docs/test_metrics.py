"""docs/metrics.md is what the code makes of it, processes show what is declared, and keep Prometheus' rules."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from metadata.counting.metric_declarations import PREFIX, Declaration, MetricKind
from tests.docs.metrics_document import DOCUMENT, LABELS_OF_BOOKIES, TABLES, document
from tests.support import prometheus
from tests.support.exposition_rules import families, violations
from tests.support.metrics_pages import APPLICATION, AUTORECOVERY, BOOKIE, JOURNAL, OFFLOADER, every_page
from tests.support.prometheus import promtool

KINDS = (BOOKIE, AUTORECOVERY, OFFLOADER, JOURNAL, APPLICATION)
OF_HADOOP = "hadoop_"
OF_OTHERS = (OF_HADOOP, "process_", "python_")

DECLARED = {
    one.base + ("_info" if one.kind is MetricKind.INFO else ""): one
    for table in TABLES
    for one in table.declared
}
"""By the name of the family on a page."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return every_page(tmp_path_factory.mktemp("pages"))


def test_the_document_is_what_the_code_makes_of_it() -> None:
    assert DOCUMENT.read_text() == document(), "run: make metrics-doc"


def test_what_a_process_shows_is_declared_and_what_is_declared_is_shown(pages: dict[str, str]) -> None:
    found = {family.name for page in pages.values() for family in families(page)}
    ours = {name for name in found if not name.startswith(OF_OTHERS)}
    assert ours == DECLARED.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_has_the_type_the_help_and_the_labels_that_are_declared(
    kind: str, pages: dict[str, str]
) -> None:
    shown = [family for family in families(pages[kind]) if not family.name.startswith(OF_OTHERS)]
    assert shown
    for family in shown:
        declared = DECLARED[family.name]
        assert (family.type, family.documentation) == (_type(declared), declared.description)
        for sample in family.samples:
            labels = set(sample.labels) - {LABELS_OF_BOOKIES, "le"}
            assert labels == set(declared.labels), sample


def _type(declared: Declaration) -> str:
    return (
        MetricKind.GAUGE if declared.kind is MetricKind.INFO else declared.kind
    )  # as the text format has it


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_keeps_prometheus_rules(kind: str, pages: dict[str, str]) -> None:
    assert violations(pages[kind], without_units=OF_HADOOP) == []


@pytest.mark.skipif(
    bool(prometheus.WHY_NOT), reason=f"{prometheus.WHY_NOT}; the rules were checked without it"
)
@pytest.mark.parametrize("kind", KINDS)
def test_promtool_has_nothing_to_say_of_a_page(kind: str, pages: dict[str, str]) -> None:
    assert "# HELP" in pages[kind]
    assert promtool("check", "metrics", stdin=pages[kind]) == (0, "")


BROKEN = {
    "# HELP x X.\n# TYPE x counter\nx 1\n": "does not end with _total",
    "# HELP x_total X.\n# TYPE x_total gauge\nx_total 1\n": "is no counter",
    "# TYPE x gauge\nx 1\n": "no help",
    "# HELP x_ms X.\n# TYPE x_ms gauge\nx_ms 1\n": "its unit is ms",
    "# HELP x_seconds_max X.\n# TYPE x_seconds_max gauge\nx_seconds_max 1\n": "does not stand last",
    "# HELP xY X.\n# TYPE xY gauge\nxY 1\n": "not in snake_case",
    "# HELP x X.\n# TYPE x gauge\nx{aB=\"1\"} 1\n": "its label aB",
    "# HELP x_count X.\n# TYPE x_count gauge\nx_count 1\n": "series of a histogram",
    "# HELP x_gauge X.\n# TYPE x_gauge gauge\nx_gauge 1\n": "its type in it",
    '# HELP x X.\n# TYPE x histogram\nx_bucket{le="1.0"} 1\nx_count 1\nx_sum 1\n': "+Inf",
    '# HELP x X.\n# TYPE x histogram\nx_bucket{le="1.0"} 2\nx_bucket{le="+Inf"} 1\nx_count 1\nx_sum 1\n': "cumulative",
    '# HELP x X.\n# TYPE x histogram\nx_bucket{le="+Inf"} 2\nx_count 1\nx_sum 1\n': "not its last bucket",
    '# HELP x X.\n# TYPE x histogram\nx_bucket{le="+Inf"} 1\nx_count 1\n': "no sum",
}  # fmt: skip


@pytest.mark.parametrize(("page", "what"), BROKEN.items(), ids=BROKEN.values())
def test_a_page_that_breaks_a_rule_is_noticed(page: str, what: str) -> None:
    assert [told for told in violations(page) if what in told], violations(page)


@pytest.mark.skipif(bool(prometheus.WHY_NOT), reason=prometheus.WHY_NOT)
def test_promtool_notices_a_metric_that_breaks_the_rules() -> None:
    code, said = promtool("check", "metrics", stdin="# HELP x_ms X.\n# TYPE x_ms counter\nx_ms 1\n")
    assert code != 0
    assert "_total" in said


def test_each_metric_is_declared_once_in_one_sentence_under_our_prefix() -> None:
    names = Counter(one.name for table in TABLES for one in table.declared)
    assert not [name for name, times in names.items() if times > 1]
    for one in DECLARED.values():
        assert one.name.startswith(f"{PREFIX}_")
        assert re.fullmatch(r"[A-Z0-9][^.|]*\.", one.description), one.description


def test_bookkeepers_metrics_are_named_once_each() -> None:
    theirs = Counter(name for one in DECLARED.values() for name in one.bookkeeper.split(" + ") if name)
    assert theirs
    assert not [name for name, times in theirs.items() if times > 1]
