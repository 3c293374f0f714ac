"""A Spark cluster on this machine: a master and two workers, each with an address and processes of its own.

`local-cluster` will not do: its workers are all on one host, and Spark speculates on another host only.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.support.etcd import free_port

SPARK_HOME = Path(pyspark.__file__).parent
WORKER_HOSTS = ("127.0.0.2", "127.0.0.3")
STOP_SECONDS_MAX = 20


@contextmanager
def spark_cluster(directory: Path) -> Iterator[str]:
    """Gives the master's URL; the workers register with it while whoever uses it starts."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port)]
    with ExitStack() as stack:
        stack.enter_context(_daemon(directory / "master", master))
        for host in WORKER_HOSTS:
            worker = ["worker.Worker", "--host", host, "--cores", "1", "--memory", "600m"]
            stack.enter_context(_daemon(directory / host, [*worker, url]))
        yield url


@contextmanager
def _daemon(directory: Path, arguments: list[str]) -> Iterator[None]:
    directory.mkdir(parents=True)
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}"]
    environment = {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(directory),
    }
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--webui-port", "0", *arguments[1:]],
            env=os.environ | environment,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
