"""The configuration of one process of Hadoop's: a folder for its class path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

# Both, with the same in them: the defaults of HDFS overrule core-site.xml, and hdfs-site.xml is not seen by programs
# that begin without HDFS.
FILES = ("core-site.xml", "hdfs-site.xml")
# Its web servers refuse to start without these folders; the jars from Maven lack some of them.
WEB_FOLDERS = ("hdfs", "journal", "static")


def write_configuration(folder: Path, settings: Mapping[str, str]) -> None:
    """Makes the folder say this and nothing else."""
    for name in WEB_FOLDERS:
        (folder / "webapps" / name).mkdir(parents=True, exist_ok=True)
    properties = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    for file in FILES:
        (folder / file).write_text(f"<configuration>\n{properties}</configuration>\n", encoding="utf-8")
