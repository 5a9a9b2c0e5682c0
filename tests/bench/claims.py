"""What redeeming a claim costs, over the bare call."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from figure import Figure
from tokens import KeepAlive
from urllib3 import HTTPConnectionPool

from labkit import Lab, SingleUse

AT_ONCE = 32
COUNT = 640
ROUNDS = 9


def figures(lab: Lab) -> Iterator[Figure]:
    """Redemptions a second, 32 at once."""
    client = lab.client("confirmations")
    single_use = SingleUse(client)
    pool = HTTPConnectionPool(*lab.address.removeprefix("http://").split(":"), maxsize=AT_ONCE)
    here = threading.local()

    def bare(claim: str) -> None:
        headers = {"X-Vault-Token": claim, "X-Vault-Namespace": lab.namespace}
        answer = pool.urlopen("POST", "/v1/sys/wrapping/unwrap", headers=headers, retries=False)
        if not json.loads(answer.data)["data"]:
            raise RuntimeError("nothing in it")

    def barest(claim: str) -> None:
        if not hasattr(here, "connection"):
            here.connection = KeepAlive(lab, client)
        here.connection.post("sys/wrapping/unwrap", {}, **{"X-Vault-Token": claim})

    plan = {"tool": "purge_objects", "arguments": {"prefix": "logs/"}, "principal": None, "keys": ["logs/1", "logs/2"]}

    def rate(redeem: Callable[[str], object]) -> float:
        unused = [single_use.issue(plan) for _ in range(COUNT)]
        started = time.perf_counter()
        list(threads.map(redeem, unused))
        return COUNT / (time.perf_counter() - started)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        rates = [[rate(each) for each in (single_use.redeem, bare, barest)] for _ in range(ROUNDS)]
    redeemed, raw, rawest = (statistics.median(column) for column in zip(*rates, strict=True))
    detail = f"({redeemed:.0f} /s / {raw:.0f} /s, median of {ROUNDS})"
    limit = f"over http.client, which has no pool and checks nothing: {redeemed / rawest:.2f} ({rawest:.0f} /s)"
    yield Figure(
        "redeemed a second, 32 at once / raw unwrap calls by urllib3", redeemed / raw, 0.8, True, detail, limit
    )
