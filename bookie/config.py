"""A bookie's configuration, validated on construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from metadata.settings.tunable import set_by_option, tunable

from .addresses import check_host, is_wildcard
from .limits_config import Limits
from .upkeep_config import UpkeepConfig

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

MIB = 1024 * 1024

CHECKPOINT_FRAMES_MAX = 50_000
"""Maximum number of frames that a restart may have to replay; their locations are kept in memory until a checkpoint."""

CHECKPOINT_SECONDS_MAX = 60.0
"""Maximum seconds between two checkpoints while anything is being written."""

DISK_RESERVE_BYTES = 64 * MIB
"""Space reserved for fences and recovery writes on a full disk: many times what they need until an operator has freed
some space."""

DISK_CHECK_SECONDS = 1.0
"""Seconds between checks of free space; a check is one system call, and a disk cannot fill up much in a second."""


def check_advertised(host: str) -> None:
    """Raises ValueError for an advertised host that clients cannot connect to. The bookie adds its port to the host."""
    if not host or "," in host or any(map(str.isspace, host)):
        raise ValueError(f"{host!r} is not a host name or address: pass exactly one, without spaces")
    if is_wildcard(host):
        raise ValueError(
            f"{host} means every address of this machine, so clients cannot connect to it: pass one of these "
            "addresses, or the machine's host name"
        )
    check_host(host)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieConfig:
    """All settings of a bookie.

    `log_queue_bytes_max`: back-pressure: when the accepted frames that are not yet on disk exceed this many bytes, the
    bookie stops reading from its clients until the disk has caught up. `checkpoint_*_max`: how much log a restart may
    have to replay; smaller values mean faster starts and more index writes. `lease_seconds`: how long the cluster takes
    to notice a dead bookie; if it is too short, a busy host loses its registration. `disk_free_*_min`: if less of the
    disk is free, as a share or in bytes, the bookie is read-only until twice as much is free. The fields that default
    to the constants above are arguments for tests, not settings. `segment_bytes_max`: size beyond which a segment of
    the log ends (None: `log.appender.SEGMENT_BYTES_MAX`). `accept_loss`: serve from an older copy of the directory, in
    limbo. `accept_unsafe_etcd`: serve with an etcd that may lose confirmed writes. `limits`: limits on the bookie's
    clients. `bookies_in_process`: how many bookies share the process's file descriptors, of which
    `descriptors_elsewhere` are for other parts of the process. `certificates`: directory with the bookie's own
    certificate and those of its authorities (`wire.trust.certificates`). Without certificates the bookie communicates
    in plain text, which requires `insecure` if other machines can reach it. `tracing`: OpenTelemetry's provider for
    spans of frames, pages and fences; if it is None, no spans are created.
    """

    data_directory: Path
    metadata_uri: str
    host: str = set_by_option("127.0.0.1", "host in [bookie.run]")
    port: int = set_by_option(3181, "port in [bookie.run]")
    advertised_host: str | None = set_by_option(None, "advertise in [bookie.run]")
    fault_domain: str = set_by_option("", "fault-domain in [bookie.run]")
    log_queue_bytes_max: int = tunable(
        32 * MIB,
        "Memory for accepted frames that are not yet on disk; while it is full, the bookie stops reading from clients.",
        8 * MIB,
        2**36,
    )
    checkpoint_log_bytes_max: int = tunable(
        128 * MIB,
        "Maximum bytes of log that a restart has to replay; lower values mean faster starts and more index writes.",
        MIB,
        2**40,
    )
    checkpoint_frames_max: int = CHECKPOINT_FRAMES_MAX
    checkpoint_seconds_max: float = CHECKPOINT_SECONDS_MAX
    lease_seconds: float = set_by_option(10.0, "lease-seconds in [bookie.run]")
    disk_free_share_min: float = tunable(
        0.05,
        "A bookie is read-only below this share of free disk, or below free-space-min if that is less.",
        0,
        0.49,
    )
    disk_free_bytes_min: int = set_by_option(2 * 1024 * MIB, "free-space-min in [bookie.run]")
    disk_reserve_bytes: int = DISK_RESERVE_BYTES
    disk_check_seconds: float = DISK_CHECK_SECONDS
    read_threads: int = tunable(4, "Concurrent reads of pages from disk.", 1, 256)
    segment_bytes_max: int | None = set_by_option(None, "segment-size in [bookie.run]")
    slow_append_seconds: float = tunable(
        1.0,
        "Log an append that takes longer than this from arrival to disk, with the time of each step.",
        0.001,
        3600,
    )
    index_bytes_max: int = tunable(
        256 * 1024 * MIB,
        "Size limit of the index; its file occupies only the space in use.",
        64 * MIB,
        2**46,
    )
    accept_loss: bool = False
    accept_unsafe_etcd: bool = False
    upkeep: UpkeepConfig = field(default_factory=UpkeepConfig)
    limits: Limits = field(default_factory=Limits)
    certificates: Path | None = None
    insecure: bool = False
    bookies_in_process: int = 1
    descriptors_elsewhere: int = 0
    tracing: TracerProvider | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port {self.port} is not between 0 and 65535")
        check_host(self.host)
        if self.advertised_host is not None:
            check_advertised(self.advertised_host)
        if self.lease_seconds < 1:
            raise ValueError("a lease shorter than a second would expire during any brief delay")
        if (
            not 0 <= self.disk_free_share_min < 0.5
            or self.disk_free_bytes_min < 0
            or self.disk_reserve_bytes < 0
        ):
            raise ValueError(
                "the share of the disk to keep free must be at least 0 and below 0.5, and the bytes to keep free or in "
                "reserve must not be negative"
            )
        if self.bookies_in_process < 1:
            raise ValueError("there must be at least one bookie in the process")
        if self.read_threads < 1:
            raise ValueError("a bookie needs at least one read thread")
