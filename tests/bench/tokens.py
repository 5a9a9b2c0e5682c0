"""What a token costs: the SDK's own codec, the ring that follows KV, and one call to Transit."""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import hvac
from figure import Figure, Measure, ratio
from mcp.server.request_state import AESGCMRequestStateCodec

from labkit import Lab, LiveKeyRing, TransitCodec, load_key_ring
from labkit.provision import RING_PATH, TRANSIT_KEY
from labkit.transit import FORMAT

PAYLOAD = b"x" * 225  # as long as the janitor's states


def tokens(codec: Any, count: int = 20_000) -> Measure:
    """Seconds that sealing and unsealing so many states take."""

    def run() -> float:
        started = time.perf_counter()
        for _ in range(count):
            codec.unseal(codec.seal(PAYLOAD))
        return time.perf_counter() - started

    # A server has one codec. Code that meets two in turn would be specialized by the interpreter for neither.
    run.__code__ = run.__code__.replace()
    return run


def calls(one: Any, count: int = 100) -> Measure:
    """Seconds that a call takes."""

    def run() -> float:
        started = time.perf_counter()
        for _ in range(count):
            one()
        return (time.perf_counter() - started) / count

    return run


class KeepAlive:
    """The least that Python can do: `http.client`, one connection, the body that `TransitCodec` sends."""

    def __init__(self, lab: Lab, client: hvac.Client) -> None:
        """Connect with the token of `client`."""
        self._connection = http.client.HTTPConnection(lab.address.removeprefix("http://"))
        self._headers = {"X-Vault-Token": client.token, "X-Vault-Namespace": lab.namespace, "X-Vault-Request": "true"}

    def seal(self) -> str:
        """One call to `encrypt`."""
        body = {"plaintext": base64.b64encode(PAYLOAD).decode(), "associated_data": FORMAT}
        return str(self.post(f"transit/encrypt/{TRANSIT_KEY}", body)["ciphertext"])

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """The part `data` of what OpenBao answers."""
        self._connection.request("POST", f"/v1/{path}", json.dumps(body).encode(), {**self._headers, **headers})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: status {answer.status}")
        return json.loads(content)["data"]


def plain_hvac(lab: Lab, client: hvac.Client) -> hvac.Client:
    """What a reader has who takes hvac as it comes."""
    return hvac.Client(lab.address, token=client.token, namespace=lab.namespace)


def figures(lab: Lab) -> Iterator[Figure]:
    """What a token costs."""
    reader = lab.client("ring-reader")
    live = LiveKeyRing(reader)
    sdk = AESGCMRequestStateCodec(load_key_ring(reader))
    limit = (
        "at its limit: one look at the clock and one Python call more are 0.07 us on 2.3 us (by timeit), 1.03 at best; "
        "a timer instead of the clock would not notice that the process had stood still"
    )
    yield ratio("LiveKeyRing seal + unseal / the SDK's own codec", tokens(live), tokens(sdk), bound=1.05, limit=limit)

    path = f"{RING_PATH}-of-64"
    keys = ",".join(secrets.token_hex(32) for _ in range(64))
    lab.admin.secrets.kv.v2.create_or_update_secret(path, {"keys": keys}, mount_point="secret")
    large = LiveKeyRing(lab.admin, path)
    yield ratio("LiveKeyRing with 64 keys / with 1", tokens(large), tokens(live), bound=1.10)
    large.close()
    live.close()

    login = lab.client("transit")
    codec, least = TransitCodec(login), KeepAlive(lab, login)
    yield ratio(
        "TransitCodec, one call / http.client, the same call",
        calls(lambda: codec.seal(PAYLOAD)),
        calls(least.seal),
        bound=1.5,
    )
