"""What stands in docs/running: every metric in it exists, every alert has a runbook."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from metadata.counting import facts
from tests.support.metrics_pages import every_page

DOCS = Path(__file__).parents[2] / "docs"
RUNNING = DOCS / "running"
WORDS = {
    "and",
    "by",
    "delta",
    "group_left",
    "histogram_quantile",
    "increase",
    "max",
    "on",
    "or",
    "rate",
    "sum",
}
OF_PROMETHEUS = {"up"}
LABELS_OF_PROMETHEUS = {"instance", "job"}


def rules() -> list[dict[str, Any]]:
    told = yaml.safe_load((RUNNING / "alerts.yaml").read_text())
    return [rule for group in told["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RUNNING / "dashboard.json").read_text())["panels"]
    return found


def metrics_in(expression: str) -> set[str]:
    """Names of metrics: without selectors, ranges, labels to sum by, and words of the language."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(by|on|group_left) \([^)]*\)", "", expression)
    return set(re.findall(r"\b[a-z][a-z0-9_]+", bare)) - WORDS


EXPRESSIONS = [
    *[pytest.param(rule["expr"], id=rule["alert"]) for rule in rules()],
    *[
        pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
        for panel in panels()
        for target in panel["targets"]
    ],
]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Every name that a process tells, with its labels."""
    found: dict[str, set[str]] = {}
    for page in every_page(tmp_path_factory.mktemp("pages")).values():
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_exists_and_has_the_labels_that_are_asked_for(
    expression: str, samples: dict[str, set[str]]
) -> None:
    names = metrics_in(expression)
    assert names
    assert names <= samples.keys() | OF_PROMETHEUS
    labels = {
        label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")
    }
    of_each = [samples[name] | LABELS_OF_PROMETHEUS for name in names - OF_PROMETHEUS]
    if " on (" in expression:  # one side brings the labels
        assert labels <= set().union(*of_each)
    else:
        assert all(labels <= of_one for of_one in of_each), names
    assert expression.count("(") == expression.count(")")


def test_a_name_that_is_none_would_be_noticed() -> None:
    assert metrics_in("rate(bookledger_bookie_gone_total{bookie=~'x'}[5m]) > 0") == {
        "bookledger_bookie_gone_total"
    }


def test_every_alert_is_whole_and_has_a_runbook() -> None:
    titles = re.findall(r"^### (.*)$", (DOCS / "runbooks.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    for rule in rules():
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page == "{{ $externalLabels.docs }}/runbooks.md" and anchor in anchors, rule["alert"]
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_every_alert_that_a_fact_names_is_there_and_asks_for_facts_that_are() -> None:
    there = {rule["alert"] for rule in rules()}
    for fact in facts.FACTS:
        assert set(fact.alerts) <= there, fact.name
        assert fact.alerts or not fact.not_ready, "what makes a daemon not ready is watched"
    asked = {name for rule in rules() for name in re.findall(r'fact="(\w*)"', rule["expr"])}
    assert asked <= {fact.name for fact in facts.FACTS}
    for rule in rules():
        for name in re.findall(r'fact="(\w*)"', rule["expr"]):
            (fact,) = [one for one in facts.FACTS if one.name == name]
            assert rule["alert"] in fact.alerts


def test_the_dashboard_draws_every_metric_that_changes_with_work(samples: dict[str, set[str]]) -> None:
    drawn = {name for panel in panels() for target in panel["targets"] for name in metrics_in(target["expr"])}
    assert {
        "bookledger_bookie_append_entries_total",
        "bookledger_bookie_sync_seconds_bucket",
        "bookledger_health_fact",
    } <= drawn
    assert len({panel["id"] for panel in panels()}) == len(panels())
    assert {
        "bookledger_auditor_fragments",
        "bookledger_metadata_calls_total",
        "hadoop_journal_current_lag_txns",
    } <= drawn
    assert drawn <= samples.keys()
