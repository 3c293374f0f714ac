"""Every parser of bytes that come from a network, a disk or a person."""

from __future__ import annotations

from . import disk, edits_and_settings, hadoop, metadata_records, network
from .target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (network, disk, metadata_records, edits_and_settings, hadoop)
    for target in module.targets()
}
