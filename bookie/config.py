"""A bookie's settings, checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .limits_config import Limits
from .upkeep_config import UpkeepConfig

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieConfig:
    """Everything a bookie is told when it starts.

    `log_queue_bytes_max`: frames accepted and not yet on disk; past it the bookie stops reading from
    its clients until the disk has caught up. `checkpoint_*_max`: how much log a restart may have to
    read again; smaller means faster starts and more index writes. `lease_seconds`: how long the
    cluster takes to notice a dead bookie; too short and a busy host loses its registration. `disk_free_*_min`:
    with less of the disk free, in share or in bytes, the bookie is read-only until twice as much is.
    `disk_reserve_bytes`: kept back for fences and recovery writes. `segment_bytes_max`: where a segment of the log
    ends and the next begins (None: `log.appender.SEGMENT_BYTES_MAX`). `accept_loss`: serve an older
    copy of the directory, in limbo. `limits`: what its clients may use. `bookies_in_process`: so many share what the
    process may have open. `certificates`: directory with its own and its authorities' (`wire.trust.certificates`);
    without, plain text is spoken, which takes `insecure` where other machines reach it.
    """

    data_directory: Path
    metadata_uri: str
    host: str = "127.0.0.1"
    port: int = 3181
    advertised_host: str | None = None
    fault_domain: str = ""
    log_queue_bytes_max: int = 32 * MIB
    checkpoint_log_bytes_max: int = 128 * MIB
    checkpoint_frames_max: int = 50_000
    checkpoint_seconds_max: float = 60.0
    lease_seconds: float = 10.0
    disk_free_share_min: float = 0.05
    disk_free_bytes_min: int = 2 * 1024 * MIB
    disk_reserve_bytes: int = 64 * MIB
    disk_check_seconds: float = 1.0
    read_threads: int = 4
    segment_bytes_max: int | None = None
    accept_loss: bool = False
    upkeep: UpkeepConfig = field(default_factory=UpkeepConfig)
    limits: Limits = field(default_factory=Limits)
    certificates: Path | None = None
    insecure: bool = False
    bookies_in_process: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port {self.port} is not between 0 and 65535")
        if self.lease_seconds < 1:
            raise ValueError("a lease shorter than a second would be lost at every hiccup")
        if (
            not 0 <= self.disk_free_share_min < 0.5
            or self.disk_free_bytes_min < 0
            or self.disk_reserve_bytes < 0
        ):
            raise ValueError(
                "the space to keep free is a share below one half, and bytes that are not negative"
            )
        if self.bookies_in_process < 1:
            raise ValueError("a bookie is at least one in its process")
        if self.read_threads < 1:
            raise ValueError("a bookie needs at least one read thread")
