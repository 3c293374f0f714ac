"""A real etcd of three members, with TLS between all and authentication, each a process that can be killed or hang."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from metadata.etcd import etcd_pb2 as pb

from .certificates import Certificates, make_certificates
from .etcd import START_SECONDS_MAX, Ending, _free_ports, _text, _varint
from .etcd_program import find_etcd
from .waiting import until

USER, PASSWORD = "root", "secret"


class Member(Ending):
    """One of them."""

    def __init__(
        self, name: str, directory: Path, certificates: Certificates, ports: tuple[int, int]
    ) -> None:
        self.name = name
        self.endpoint = f"127.0.0.1:{ports[0]}"
        self.peer = f"https://127.0.0.1:{ports[1]}"
        self._directory = directory
        self._certificates = certificates

    def launch(self, members: str, state: str = "new") -> None:
        pem, client = self._certificates, f"https://{self.endpoint}"
        command = [find_etcd(), "--name", self.name, "--data-dir", str(self._directory / self.name)]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer]
        command += ["--initial-cluster", members, "--initial-cluster-state", state]
        command += ["--client-cert-auth", "--peer-client-cert-auth"]
        for prefix in ("", "peer-"):
            command += [f"--{prefix}cert-file", str(pem.server), f"--{prefix}key-file", str(pem.server_key)]
            command += [f"--{prefix}trusted-ca-file", str(pem.authority)]
        with (self._directory / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory)


class EtcdCluster:
    """Three members. `uri` is what users are given."""

    def __init__(self, directory: Path) -> None:
        self._certificates = make_certificates(directory / "certificates")
        ports = _free_ports(6)
        self.members = [
            Member(f"m{n}", directory, self._certificates, (ports[2 * n], ports[2 * n + 1])) for n in range(3)
        ]
        self._initial = ",".join(f"{one.name}={one.peer}" for one in self.members)
        secret = directory / "password"
        secret.touch(mode=0o600)
        secret.write_text(PASSWORD)
        pem = self._certificates
        self.uri = (
            f"etcds://{','.join(one.endpoint for one in self.members)}/cluster?user={USER}&password_file={secret}"
            f"&ca_cert={pem.authority}&cert_cert={pem.client}&cert_key={pem.client_key}"
        )

    def start(self) -> None:
        for one in self.members:
            one.launch(self._initial)
        until(lambda: self.leader() is not None, START_SECONDS_MAX)
        for method, request in (
            ("Auth/UserAdd", _text(1, USER) + _text(2, PASSWORD)),
            ("Auth/RoleAdd", _text(1, "root")),
            ("Auth/UserGrantRole", _text(1, USER) + _text(2, "root")),
            ("Auth/AuthEnable", b""),
        ):
            self.call(self.members[0], method, request)

    def restart(self, member: Member) -> None:
        """After it was killed. Returns when it knows a leader."""
        self.relaunch(member)
        self.await_all([member])

    def relaunch(self, member: Member) -> None:
        """After it was killed, where others may have to come, too, before there is a leader."""
        member.launch(self._initial)

    def await_all(self, members: list[Member]) -> None:
        """Returns when each knows a leader."""
        until(lambda: all(self._status(one).leader != 0 for one in members), START_SECONDS_MAX)

    def leader(self) -> Member | None:
        """Who says so of itself."""
        for one in self.members:
            status = self._status(one)
            if status.leader and status.leader == status.header.member_id:
                return one
        return None

    def await_leader(self, other_than: Member | None = None) -> Member:
        """Those that hang are not asked twice."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            found = self.leader()
            if found is not None and found is not other_than:
                return found
        raise AssertionError("they elect nobody")

    def followers(self) -> list[Member]:
        leader = self.await_leader()
        return [one for one in self.members if one is not leader]

    def compact(self, revision: int) -> None:
        """All that happened up to there is forgotten."""

        def is_done() -> bool:
            try:
                self.call(self.members[0], "KV/Compact", bytes([0x08]) + _varint(revision), self._token())
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    return False  # a member that hung has them elect anew
                if "has been compacted" not in str(error.details()):
                    raise
            return True

        until(is_done, START_SECONDS_MAX)

    def why_they_differ(self) -> str:
        """What members that all serve have in common no more; "" where they agree, up to the revision that all have.

        A member that lost a write counts fewer revisions from there on: its keys differ at the same revision.
        """
        revisions = {one.name: self._status(one).header.revision for one in self.members}
        up_to, token = min(revisions.values()), self._token()
        request = bytes([0x08]) + _varint(up_to)
        hashes = {}
        for one in self.members:
            reply = self.call(one, "Maintenance/HashKV", request, token)
            hashes[one.name] = reply[2 + reply[1] :].hex()  # behind the header, which names the member
        if len(set(hashes.values())) == 1:
            return ""
        return f"members of etcd differ at revision {up_to}: {hashes}; they are at {revisions}"

    def _token(self) -> str:
        return pb.AuthenticateResponse.FromString(
            self.call(self.members[0], "Auth/Authenticate", _text(1, USER) + _text(2, PASSWORD))
        ).token

    def stop(self) -> None:
        for one in self.members:
            one.kill()

    def _status(self, member: Member) -> pb.StatusResponse:
        try:
            return pb.StatusResponse.FromString(self.call(member, "Maintenance/Status", b"", seconds=1.0))
        except grpc.RpcError:  # it does not answer, or not yet
            return pb.StatusResponse()

    def call(
        self, member: Member, method: str, request: bytes, token: str = "", seconds: float = START_SECONDS_MAX
    ) -> bytes:
        pem = self._certificates
        credentials = grpc.ssl_channel_credentials(
            pem.authority.read_bytes(), pem.client_key.read_bytes(), pem.client.read_bytes()
        )
        options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
        with grpc.secure_channel(member.endpoint, credentials, options=options) as channel:
            send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/etcdserverpb.{method}")
            metadata = (("token", token),) if token else ()
            return send(request, timeout=seconds, metadata=metadata, wait_for_ready=seconds > 5)


@contextmanager
def etcd_cluster(directory: Path) -> Iterator[EtcdCluster]:
    directory.mkdir()
    cluster = EtcdCluster(directory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
