"""A real etcd for tests: one member on free ports, its data in a temporary directory."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import grpc
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from metadata.etcd import etcd_pb2 as pb

from .certificates import make_certificates
from .etcd_program import find_etcd

START_SECONDS_MAX = 30.0
START_TRIES_MAX = 3
POLL_SECONDS = 0.02


class Ending:
    """Who has a process that is told by signals, and ended at once where that takes too long."""

    stop_seconds_max = 10.0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def hang(self) -> None:
        """Stops answering, with its connections open, until `go_on`."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Answers again."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends as by a power cut, if it runs."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends in order, if it runs."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(self.stop_seconds_max)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class EtcdServer(Ending):
    """One etcd process. `start` returns when it answers; `stop` ends exactly this process."""

    def __init__(
        self,
        directory: Path,
        *,
        tls: bool = False,
        quota_bytes: int | None = None,
        host: str = "127.0.0.1",
        options: Sequence[str] = (),
    ) -> None:
        self._binary = find_etcd()
        self._options = options
        self._roles: set[str] = set()
        self._directory = directory
        self._host = host
        self._pem = (
            None if not tls else make_certificates(directory / "certificates")
        )  # its own has a key that gRPC refuses
        self._quota_bytes = quota_bytes
        self.port = 0
        self._peer_port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        return f"{self._host}:{self.port}"

    @property
    def certificate(self) -> Path:
        """Its authority's, with `tls`; one for clients lies beside it."""
        assert self._pem is not None
        return self._pem.authority

    @property
    def log(self) -> Path:
        return self._directory / "etcd.log"

    def start(self) -> None:
        """Starts on free ports; tries others if somebody took one meanwhile."""
        for _ in range(START_TRIES_MAX):
            self.port, self._peer_port = _free_ports(2)
            self._spawn()
            if self._wait_until_it_answers():
                return
            if "address already in use" not in self.log.read_text():
                break
        raise RuntimeError(f"etcd did not start:\n{self.log.read_text()[-4000:]}")

    def restart(self) -> None:
        """Starts again on the same ports and data after `kill` or `stop`."""
        assert self._process is None
        self._spawn()
        if not self._wait_until_it_answers():
            raise RuntimeError(f"etcd did not start again:\n{self.log.read_text()[-4000:]}")

    def set_aside(self, copy: Path) -> None:
        """Copies its data, as a snapshot does, and goes on."""
        self.stop()
        shutil.copytree(self._directory / "data", copy)
        self.restart()

    def go_back(self, copy: Path) -> None:
        """Is killed, and goes on from an older copy of its data."""
        self.kill()
        shutil.rmtree(self._directory / "data")
        shutil.copytree(copy, self._directory / "data")
        self.restart()

    def compact(self, revision: int) -> None:
        """Makes etcd forget its history up to and including `revision`."""
        self.call("KV/Compact", bytes([0x08]) + _varint(revision))

    def end_alarms(self, quota_bytes: int) -> None:
        """Has room again, as after an operator has enlarged the quota and disarmed the alarm."""
        self._answers()  # with the alarm, which its log tells then
        (member, *_) = re.findall(r"memberID:(\d+) alarm:NOSPACE", self.log.read_text())
        self.stop()
        self._quota_bytes = quota_bytes
        self._spawn()  # and is not healthy before the next call
        self.call("Maintenance/Alarm", b"\x08\x02\x10" + _varint(int(member)) + b"\x18\x01")

    def enable_auth(self, user: str, password: str) -> None:
        """Makes `user`, with the role root, and turns authentication on."""
        self.add_user(user, password, role="root")
        self.call("Auth/AuthEnable", b"")

    def add_user(self, user: str, password: str, *, role: str) -> None:
        """Makes a user with a role, before authentication is on."""
        self.call("Auth/UserAdd", _text(1, user) + _text(2, password))
        if role not in self._roles:
            self.call("Auth/RoleAdd", _text(1, role))
            self._roles.add(role)
        self.call("Auth/UserGrantRole", _text(1, user) + _text(2, role))

    def change_password(self, user: str, password: str, *, by: tuple[str, str]) -> None:
        """Changes it as the user `by` of that name and password, which is root."""
        asked = self.call("Auth/Authenticate", _text(1, by[0]) + _text(2, by[1]))
        token = pb.AuthenticateResponse.FromString(asked).token
        self.call("Auth/UserChangePassword", _text(1, user) + _text(2, password), token)

    def call(self, method: str, request: bytes, token: str = "") -> bytes:
        """One call with a hand-encoded request, for what the product has no messages for."""
        with grpc.insecure_channel(self.endpoint, options=(("grpc.enable_http_proxy", 0),)) as channel:
            send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/etcdserverpb.{method}")
            metadata = (("token", token),) if token else ()
            return send(request, timeout=START_SECONDS_MAX, wait_for_ready=True, metadata=metadata)

    def _spawn(self) -> None:
        client, peer = f"{self._scheme}://{self.endpoint}", f"http://127.0.0.1:{self._peer_port}"
        command = [self._binary, "--name", "test", "--data-dir", str(self._directory / "data")]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"test={peer}"]
        if self._pem is not None:
            command += ["--cert-file", str(self._pem.server), "--key-file", str(self._pem.server_key)]
        if self._quota_bytes:
            command += ["--quota-backend-bytes", str(self._quota_bytes)]
        command += self._options
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory)

    def _wait_until_it_answers(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._answers():
                return True
            time.sleep(POLL_SECONDS)
        self.kill()
        return False

    def _answers(self) -> bool:
        """Whether etcd says it is healthy, which takes a leader; with TLS, whether it speaks it."""
        if self._pem is not None:
            # The log line is enough there; /health would need the certificate.
            return b"ready to serve client requests" in self.log.read_bytes()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{self.endpoint}/health", timeout=1) as reply:
                return b'"true"' in reply.read()
        except OSError:  # not yet
            return False

    @property
    def _scheme(self) -> str:
        return "http" if self._pem is None else "https"


@contextmanager
def etcd_with_tokens(kind: str, directory: Path, seconds: int) -> Iterator[EtcdServer]:
    """An etcd that gives tokens of this kind, `jwt` or `simple`, once its authentication is on.

    It forgets a simple token that was not used for so long. Signed ones are valid for so long, and only until its users
    change.
    """
    options = _jwt_tokens(directory, seconds) if kind == "jwt" else _simple_tokens(seconds)
    with EtcdServer(directory, options=options) as server:
        yield server


def _simple_tokens(seconds: int) -> list[str]:
    return ["--auth-token", "simple", "--auth-token-ttl", str(seconds)]


def _jwt_tokens(directory: Path, seconds: int) -> list[str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = directory / "jwt.key", directory / "jwt.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return ["--auth-token", f"jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl={seconds}s"]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def free_port() -> int:
    """A port on which nobody listens at the moment."""
    return _free_ports(1)[0]


def _varint(number: int) -> bytes:
    head, rest = number & 0x7F, number >> 7
    return bytes([head | 0x80]) + _varint(rest) if rest else bytes([head])


def _text(field: int, text: str) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(text)) + text.encode()
