"""A fleet is real processes behind a balancer; each request has one execution, and nothing outlives the kernel."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import requests
from mcp.server.request_state import RequestStateSecurity
from test_lab import eventually

import labkit
from labkit import attacks, provision, replicas, wire
from labkit.balancer import Balancer
from labkit.bucket import Bucket
from labkit.fleet import Fleet
from labkit.key_ring import load_key_ring
from labkit.lab import Lab

if TYPE_CHECKING:
    from conftest import Kernel

PURGED = "Purged 3 object(s): logs/1, …"


@pytest.fixture(scope="module")
def shared() -> Bucket:
    return Bucket()


@pytest.fixture(scope="module")
def pair(lab: Lab, shared: Bucket) -> Iterator[Fleet]:
    """Two replicas with the ring, for all the tests that leave them as they are."""
    with Fleet(lab, shared) as pair:
        yield pair


def listens(url: str) -> bool:
    host, port = re.findall(r"http://([\d.]+):(\d+)/mcp", url)[0]
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=5):
        return True
    return False


def purge(url: str, bucket: Bucket) -> str:
    """Play an honest purge at `url` and return what was said."""
    bucket.reset(["logs/1", "logs/2", "logs/3", "secrets/root.key"])

    async def rounds() -> str:
        async with wire.over_http(url) as (client, _):
            return await attacks.verdict(attacks.confirm(client, await attacks.ask(client, "logs/")))

    return asyncio.run(rounds())


def who_served_each_round(fleet: Fleet, bucket: Bucket) -> list[str]:
    """Play an honest purge and return the replica that served each of its rounds."""
    bucket.reset(["logs/1", "logs/2", "logs/3", "secrets/root.key"])
    before = len(fleet.served)

    async def rounds() -> list[str]:
        async with wire.over_http(fleet.url) as (client, seen):
            assert await attacks.verdict(attacks.confirm(client, await attacks.ask(client, "logs/"))) == PURGED
            sent = [body["method"] for sender, _, body in seen.messages if sender == "client"]
            served = fleet.served[before:]
            return [replica for method, replica in zip(sent, served, strict=True) if method == "tools/call"]

    return asyncio.run(rounds())


def test_round_1_on_one_replica_and_round_2_on_the_other(pair: Fleet, shared: Bucket) -> None:
    assert sorted(who_served_each_round(pair, shared)) == sorted(set(pair.replicas))
    assert shared.keys() == ["secrets/root.key"]


@pytest.mark.parametrize("codec", set(replicas.ROLES) - {"ring"})
def test_two_replicas_understand_each_other_with_every_codec(lab: Lab, bucket: Bucket, codec: str) -> None:
    with Fleet(lab, bucket, codec=codec) as fleet:
        assert sorted(who_served_each_round(fleet, bucket)) == sorted(set(fleet.replicas))
    assert bucket.keys() == ["secrets/root.key"]


def test_many_flows_at_once_all_complete_and_none_purges_twice(pair: Fleet, shared: Bucket) -> None:
    flows = range(32)
    shared.reset([f"team-{n}/{key}" for n in flows for key in "abc"])
    before = len(pair.served)

    async def flow(n: int) -> set[str]:
        async with wire.over_http(pair.url) as (client, _):
            question = await attacks.ask(client, f"team-{n}/")
            both = (attacks.verdict(attacks.confirm(client, question)) for _ in range(2))
            return set(await asyncio.gather(*both))

    async def together() -> list[set[str]]:
        return await asyncio.gather(*map(flow, flows))

    refused = "REFUSED: this confirmation is used up or has expired. Look at what is there, and start over."
    assert asyncio.run(together()) == [{f"Purged 3 object(s): team-{n}/a, …", refused} for n in flows]
    assert shared.keys() == []
    assert set(pair.served[before:]) == set(pair.replicas)


def test_a_replica_that_is_gone_is_skipped_and_with_the_last_one_the_balancer_says_so(lab: Lab, bucket: Bucket) -> None:
    with Fleet(lab, bucket) as fleet:
        assert purge(fleet.url, bucket) == PURGED
        fleet.kill(0)
        before = len(fleet.served)
        assert purge(fleet.url, bucket) == PURGED
        assert set(fleet.served[before:]) == {fleet.replicas[1]}
        fleet.kill(1)
        answer = httpx2.post(fleet.url, json={}, trust_env=False)
        assert (answer.status_code, answer.text) == (502, "no replica answered")


@contextmanager
def held(address: str, path: str) -> Iterator[tuple[str, threading.Event]]:
    """Stand between replicas and the OpenBao at `address`, and keep back what it answers to `path`.

    Yields:
        Where to reach it, and an event: OpenBao has done what `path` asks for.
    """
    done, end = threading.Event(), threading.Event()

    class Between(BaseHTTPRequestHandler):
        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: value for name, value in self.headers.items() if name.startswith("X-Vault-")}
            with requests.Session() as session:
                session.trust_env = False
                answer = session.request(self.command, address + self.path, data=body, headers=headers, timeout=30)
            if self.path == path:
                done.set()
                end.wait()
            with suppress(OSError):  # whoever asked may be gone
                self.send_response(answer.status_code)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

        do_GET = do_POST = do_PUT = forward

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Between) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", done
        finally:
            end.set()
            server.shutdown()


def test_a_request_that_may_have_been_carried_out_is_not_sent_to_another_replica(
    own_lab: Lab, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica dies when OpenBao has redeemed the claim, and it has not heard of it yet."""

    def redemptions() -> int:
        asked = (r["request"]["path"] for r in own_lab.audit_records() if r["type"] == "request")
        return list(asked).count("sys/wrapping/unwrap")

    async def rounds(fleet: Fleet, redeemed: threading.Event) -> None:
        async with wire.over_http(fleet.url) as (client, seen):
            question = await attacks.ask(client, "logs/")
            served, asked = list(fleet.served), len(seen.messages)
            confirmation = asyncio.create_task(attacks.verdict(attacks.confirm(client, question)))
            assert await asyncio.to_thread(redeemed.wait, 30)
            fleet.kill(1 - fleet.replicas.index(served[-1]))
            assert await confirmation == "error -32603: Server returned an error response"
            assert fleet.served == served, "no other replica has answered it"
            assert len(seen.messages) == asked + 1, "nor has the client sent it twice"

    with held(own_lab.address, "/v1/sys/wrapping/unwrap") as (between, redeemed):
        monkeypatch.setattr(own_lab, "address", between)
        with Fleet(own_lab, bucket) as fleet:
            asyncio.run(rounds(fleet, redeemed))
    assert redemptions() == 1
    assert len(bucket.keys()) == 4, "a claim that is redeemed is not a purge that is done"


def test_replicas_survive_an_interrupt_of_the_kernel_and_go_with_it(kernel: Kernel, tmp_path: Path) -> None:
    said = kernel.run(
        f"""if True:
        from labkit.fleet import Fleet
        bucket = labkit.Bucket({str(tmp_path / "bucket")!r})
        fleet = Fleet(lab, bucket, count=1)
        print(fleet.url, *fleet.replicas, *(child.folder for child in fleet._children))
        """
    ).split()
    url, urls, folders = said[0], said[:2], [Path(folder) for folder in said[2:]]
    assert kernel.interrupt() == "KeyboardInterrupt"
    assert all(map(listens, urls))
    assert purge(url, Bucket(tmp_path / "bucket")) == PURGED
    assert all((folder / "confirmations.secret-id").is_file() for folder in folders)
    os.kill(kernel.pid, signal.SIGKILL)
    eventually(lambda: not any(map(listens, urls)), "balancer and replicas are gone")
    eventually(lambda: not any(folder.exists() for folder in folders), "and their credentials")


def test_closing_ends_the_processes_and_removes_the_credentials(
    lab: Lab, bucket: Bucket, pair: Fleet, shared: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Fleet(lab, bucket, count=1) as fleet:
        urls = [fleet.url, *fleet.replicas]
        assert len(list(tmp_path.iterdir())) == 1
        assert all(map(listens, urls))
    assert not any(map(listens, urls))
    assert list(tmp_path.iterdir()) == []
    fleet.close()
    assert purge(pair.url, shared) == PURGED, "another fleet is not touched"


def test_a_fleet_that_nobody_uses_any_more_ends(lab: Lab, bucket: Bucket) -> None:
    unused = Fleet(lab, bucket, count=1)
    urls, unused.itself = [unused.url, *unused.replicas], unused  # type: ignore[attr-defined]
    del unused
    gc.collect()
    assert not any(map(listens, urls))


def test_a_balancer_can_be_closed_from_its_own_thread(pair: Fleet) -> None:
    """As happens when that thread is the one which collects what nobody uses any more."""
    closed: list[Balancer] = []

    class Closing(list[str]):
        def append(self, url: str) -> None:
            closed[0].close()
            super().append(url)

    served = Closing()
    closed.append(Balancer(pair.replicas, served))
    assert httpx2.post(closed[0].url, json={}, trust_env=False).status_code < 500
    assert served == pair.replicas[:1]
    closed[0]._thread.join(timeout=30)
    assert not closed[0]._thread.is_alive()


def test_closing_does_not_wait_for_somebody_who_never_finishes_a_request(
    lab: Lab, bucket: Bucket, capfd: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(lab, bucket, count=1)
    with socket.create_connection(("127.0.0.1", int(fleet.url.split(":")[2].split("/")[0]))) as stuck:
        stuck.sendall(b"POST /mcp HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
        assert stuck.recv(100).startswith(b"HTTP/1.1 100"), "it waits for the rest"
        fleet.close()
        assert not fleet._balancers[0]._thread.is_alive()
    assert capfd.readouterr() == ("", "")


def test_a_forked_child_closes_nothing_of_its_parent() -> None:
    code = """if True:
        import asyncio, os, sys, labkit
        from labkit import attacks, wire
        from labkit.fleet import Fleet
        lab, bucket = labkit.start(), labkit.Bucket()
        bucket.reset(["logs/1", "logs/2", "logs/3"])
        fleet = Fleet(lab, bucket, count=1)
        if os.fork() == 0:
            with fleet:
                pass
            sys.exit()  # runs what is registered for the end of a process
        if os.fork() == 0:
            sys.exit()
        os.wait(), os.wait()
        assert fleet.log(0) == [], "its folder is there too"
        async def rounds():
            async with wire.over_http(fleet.url) as (client, _):
                return await attacks.verdict(attacks.confirm(client, await attacks.ask(client, "logs/")))
        print(asyncio.run(rounds()), fleet.url, *fleet.replicas)
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith(PURGED), done.stderr
    urls = done.stdout.removeprefix(PURGED).split()
    assert len(urls) == 2
    eventually(lambda: not any(map(listens, urls)), "all is gone with the process that made it")


def test_a_replica_that_cannot_start_says_why_and_leaves_nothing(
    own_namespace: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bucket = Bucket(tmp_path / "bucket")
    own_namespace.admin.secrets.kv.v2.create_or_update_secret(
        provision.RING_PATH, secret={"keys": "xyz"}, mount_point="secret"
    )
    with pytest.raises(labkit.LabError) as caught:
        Fleet(own_namespace, bucket)
    assert str(caught.value) == (
        f"A replica did not start: Entry 1 of the key ring at secret/{provision.RING_PATH} is not plain hexadecimal "
        "(3 characters, no spaces or line ends allowed): write it anew."
    )
    with pytest.raises(labkit.LabError, match=r"^A replica did not start: .*'301' is no number of seconds"):
        Fleet(own_namespace, bucket, count=1, codec="envelope", ttl=301)
    with pytest.raises(
        labkit.LabError, match=r"^There is no codec 'aes': use one of ring, envelope, transit, batched\.$"
    ):
        Fleet(own_namespace, bucket, codec="aes")
    assert list(tmp_path.iterdir()) == [bucket.folder]
    listed = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed


def test_a_fleet_without_an_openbao_is_one_sentence_and_leaves_nothing(
    own_lab: Lab, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_lab._server.close()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(labkit.OpenBaoUnavailable, match=r"^OpenBao is unreachable while handing out credentials .*\.$"):
        Fleet(own_lab, bucket)
    assert list(tmp_path.iterdir()) == []


def test_a_replica_gets_two_roles_and_nothing_of_the_kernels_rights(
    lab: Lab, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BAO_TOKEN", "VAULT_TOKEN", "BAO_DEV_ROOT_TOKEN_ID"):
        monkeypatch.setenv(name, str(lab.admin.token))
    monkeypatch.setenv("VAULT_ADDR", "http://127.0.0.1:1")
    with Fleet(lab, bucket, count=1) as fleet:
        child = fleet._children[0]
        environ = Path(f"/proc/{child.process.pid}/environ").read_text()
        settings = dict(re.findall(r"(?:^|\0)((?:BAO|VAULT)_\w+)=([^\0]*)", environ))
        assert settings == {"BAO_ADDR": lab.address, "BAO_NAMESPACE": lab.namespace}
        files = {path.name: path for path in child.folder.iterdir()}
        assert sorted(files) == [
            "confirmations.role-id", "confirmations.secret-id", "log", "ring-reader.role-id", "ring-reader.secret-id"
        ]  # fmt: skip
        assert child.folder.stat().st_mode & 0o077 == 0
        listed = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True).stdout
        assert str(child.folder) in listed, "the replica is in the list"
        for name in ("confirmations.secret-id", "ring-reader.secret-id"):
            assert files[name].read_text().strip() not in listed + environ
        for text in (environ, listed, *(path.read_text() for path in files.values())):
            assert str(lab.admin.token) not in text


def test_each_replica_has_credentials_of_its_own(pair: Fleet) -> None:
    ids = [(child.folder / "confirmations.secret-id").read_text() for child in pair._children]
    assert len(set(ids)) == 2


def test_a_proxy_that_is_set_is_not_in_the_way(lab: Lab, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Fleet(lab, bucket, count=1) as fleet:
        assert purge(fleet.url, bucket) == PURGED


def test_a_page_from_elsewhere_is_turned_down_through_the_balancer_too(pair: Fleet) -> None:
    """The balancer is one more door on loopback, and a browser reaches it."""
    headers = {"origin": "https://evil.example", "content-type": "application/json", "accept": "application/json"}
    assert httpx2.post(pair.url, json={}, headers=headers, trust_env=False).status_code == 403


def test_a_fleet_keeps_what_a_replica_logs(pair: Fleet, shared: Bucket) -> None:
    shared.reset(["logs/1"])

    async def tampered() -> Any:
        async with wire.over_http(pair.url) as (client, _):
            return await attacks.verdict(attacks.tamper_one_byte(client, await attacks.ask(client, "logs/")))

    assert asyncio.run(tampered()) == "error -32602: Invalid or expired requestState"
    number = pair.replicas.index(pair.served[-1])
    eventually(lambda: "requestState rejected on tools/call: seal" in pair.log(number), "the reason is logged")


def test_a_fleet_of_none_is_turned_down(lab: Lab, bucket: Bucket) -> None:
    with pytest.raises(ValueError, match="at least 1 replica, not 0"):
        Fleet(lab, bucket, count=0)


class Upstream:
    """Stands in a replica's place, says yes to everything, and would keep each connection open for more.

    Attributes:
        url: where it listens.
        connections: how many were made to it.
        requests: the headers and the length of the body of each, as they came.
    """

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[tuple[list[tuple[str, str]], int]] = []
        upstream = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                upstream.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                upstream.requests.append((self.headers.items(), len(body)))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.send_header("X-Twice", "one")
                self.send_header("X-Twice", "two")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.server.daemon_threads = True
        self.server.block_on_close = False  # whoever keeps a connection open would be waited for
        self.url = f"http://127.0.0.1:{self.server.server_port}/mcp"


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    upstream = Upstream()
    with upstream.server:
        threading.Thread(target=upstream.server.serve_forever, daemon=True).start()
        yield upstream
        upstream.server.shutdown()


@contextmanager
def balanced(*urls: str) -> Iterator[tuple[str, list[str]]]:
    """A balancer in front of `urls`: where it listens, and what it has served."""
    served: list[str] = []
    balancer = Balancer(list(urls), served)
    try:
        yield balancer.url, served
    finally:
        balancer.close()


def port_of(url: str) -> int:
    return int(url.split(":")[2].split("/")[0])


def test_each_request_has_a_connection_of_its_own_to_the_replica(upstream: Upstream) -> None:
    """Of one that is kept open and fails, nobody knows what came through."""
    with balanced(upstream.url) as (url, _), httpx2.Client(trust_env=False) as client:
        assert [client.post(url, json={}).status_code for _ in range(5)] == [200] * 5
    assert upstream.connections == 5


def test_anything_but_a_post_is_turned_down_and_reaches_no_replica(
    pair: Fleet, upstream: Upstream, shared: Bucket
) -> None:
    served = list(pair.served)
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        # As a client does that listens for messages of the server: it must not wait here for ever.
        answer = httpx2.request(method, pair.url, headers={"accept": "text/event-stream"}, trust_env=False, timeout=30)
        assert (method, answer.status_code) == (method, 405)
    assert pair.served == served
    with balanced(upstream.url) as (url, _):
        assert httpx2.get(url, trust_env=False).status_code == 405
    assert upstream.connections == 0
    assert purge(pair.url, shared) == PURGED


def test_a_foreign_host_is_turned_down_through_the_balancer_as_by_a_replica(pair: Fleet) -> None:
    said = []
    for url in (pair.url, *pair.replicas):
        for host in ("evil.example", f"evil.example:{port_of(url)}"):
            headers = {"host": host, "accept": "application/json, text/event-stream"}
            answer = httpx2.post(url, json={}, headers=headers, trust_env=False)
            said.append((answer.status_code, answer.text))
    assert set(said) == {(421, "Invalid Host header")}


def test_a_request_that_is_too_large_is_turned_down_and_reaches_no_replica(upstream: Upstream) -> None:
    with balanced(upstream.url) as (url, served):
        for size, status in ((4_000_000, 200), (4_000_001, 413), (5_000_000, 413)):
            with suppress(httpx2.WriteError):  # it may hang up before all has been sent
                assert httpx2.post(url, content=b" " * size, trust_env=False).status_code == status
        assert served == [upstream.url]
    assert [length for _, length in upstream.requests] == [4_000_000]


def test_headers_pass_through_as_they_are_and_those_of_a_connection_do_not(upstream: Upstream) -> None:
    with balanced(upstream.url) as (url, _):
        connection = HTTPConnection("127.0.0.1", port_of(url), timeout=30)
        connection.putrequest("POST", "/mcp", skip_host=True, skip_accept_encoding=True)
        sent = [
            ("host", "desk.example"),
            ("accept", "application/json"),
            ("accept", "text/event-stream"),
            ("x-name", "J\xfcrgen"),
            ("authorization", "Bearer one"),
        ]
        for name, value in [*sent, ("content-length", "2"), ("keep-alive", "timeout=5"), ("connection", "close")]:
            connection.putheader(name, value.encode("latin-1"))
        connection.endheaders(b"{}")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"{}")
        assert answer.headers.get_all("x-twice") == ["one", "two"]
        connection.close()
    ((headers, length),) = upstream.requests
    received = [(name.lower(), value) for name, value in headers]
    assert [item for item in received if item in sent] == sent
    assert [value for name, value in received if name == "host"] == ["desk.example"]
    assert [value for name, value in received if name == "accept"] == ["application/json", "text/event-stream"]
    assert "keep-alive" not in dict(received)
    assert length == 2


def test_the_ttl_of_a_fleet_is_that_of_its_replicas(lab: Lab, bucket: Bucket) -> None:
    bucket.reset(["logs/1"])

    async def state(fleet: Fleet) -> str:
        async with wire.over_http(fleet.url) as (client, _):
            return (await attacks.ask(client, "logs/")).state

    with Fleet(lab, bucket, count=1, ttl=77) as fleet:
        codec = RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader"))).codec
        sealed = json.loads(codec.unseal(asyncio.run(state(fleet))))
    claim = json.loads(sealed["s"])["claim"]
    assert sealed["exp"] - sealed["iat"] == pytest.approx(77)
    assert lab.admin.adapter.post("/v1/sys/wrapping/lookup", json={"token": claim})["data"]["creation_ttl"] == 77
