"""The examples in the docstrings of `spark` run, in the session of the tests."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.docs.test_docstrings import example_of
from tests.spark.conftest import Cluster


@pytest.mark.parametrize("module", ["spark", "spark.source"])
def test_the_example_of_a_module_runs(module: str, spark: SparkSession, cluster: Cluster) -> None:
    cluster.write([b"one", b"two"])
    example = example_of(module).replace("local[*]", "local[2,4]")
    names: dict[str, object] = {"uri": cluster.uri, "session": spark}
    exec(compile(example, module, "exec"), names)
    entries = names["entries"]
    assert isinstance(entries, DataFrame)
    assert entries.count() > 0
