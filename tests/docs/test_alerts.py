"""Prometheus itself reads our rules and its configuration, and tries each alert."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support import prometheus
from tests.support.prometheus import ROOT, promtool

RUNNING = ROOT / "docs" / "running"
ALERTS = RUNNING / "alerts.yaml"
TRIED = Path(__file__).parent / "alerts_test.yaml"

if prometheus.WHY_NOT:
    pytestmark = pytest.mark.skip(reason=prometheus.WHY_NOT)


def test_the_rules_are_rules() -> None:
    code, said = promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)
    assert code == 0, said


def test_the_configuration_is_one_beside_the_rules(tmp_path: Path) -> None:
    """As compose.yaml mounts both."""
    (tmp_path / "prometheus.yml").write_text((RUNNING / "containers" / "prometheus.yaml").read_text())
    (tmp_path / "alerts.yaml").write_text(ALERTS.read_text())
    code, said = promtool("check", "config", "--lint=all", "--lint-fatal", tmp_path / "prometheus.yml")
    assert code == 0, said
    assert "1 rule files found" in said


def test_each_alert_fires_when_it_should_and_not_before() -> None:
    code, said = promtool("test", "rules", TRIED)
    assert code == 0, said


def test_every_alert_is_tried_both_ways() -> None:
    told = yaml.safe_load(ALERTS.read_text())
    names = [rule["alert"] for group in told["groups"] for rule in group["rules"]]
    tried = {
        (one["alertname"], bool(one["exp_alerts"]))
        for test in yaml.safe_load(TRIED.read_text())["tests"]
        for one in test["alert_rule_test"]
    }
    assert tried == {(name, fires) for name in names for fires in (False, True)}


@pytest.mark.long
@pytest.mark.parametrize(("of_one", "broken"), [("> 0.25", "> 25"), ("for: 5m", "for: 1m")])
def test_a_rule_that_was_changed_is_noticed(of_one: str, broken: str, tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(ALERTS.read_text().replace(of_one, broken))
    (tmp_path / "tried.yaml").write_text(
        TRIED.read_text().replace("../../docs/running/alerts.yaml", "alerts.yaml")
    )
    code, said = promtool("test", "rules", tmp_path / "tried.yaml")
    assert code != 0
    assert "FAILED" in said
