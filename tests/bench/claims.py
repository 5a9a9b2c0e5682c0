"""What redeeming a claim costs, over the bare call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from figure import Figure, ratio
from tokens import KeepAlive

from labkit import Lab, SingleUse

AT_ONCE = 32
COUNT = 640


def figures(lab: Lab) -> Iterator[Figure]:
    """Redemptions a second, 32 at once."""
    client = lab.client("confirmations")
    single_use = SingleUse(client)
    here = threading.local()

    def bare(claim: str) -> None:
        if not hasattr(here, "connection"):
            here.connection = KeepAlive(lab, client)
        here.connection.post("sys/wrapping/unwrap", {}, **{"X-Vault-Token": claim})

    plan = {"tool": "purge_objects", "arguments": {"prefix": "logs/"}, "principal": None, "keys": ["logs/1", "logs/2"]}

    with ThreadPoolExecutor(AT_ONCE) as threads:

        def rate(redeem: Callable[[str], object]) -> Callable[[], float]:
            def run() -> float:
                claims = [single_use.issue(plan) for _ in range(COUNT)]
                started = time.perf_counter()
                list(threads.map(redeem, claims))
                return COUNT / (time.perf_counter() - started)

            return run

        yield ratio(
            "redeemed a second, 32 at once / bare unwrap calls a second",
            rate(single_use.redeem),
            rate(bare),
            bound=0.8,
            at_least=True,
            rounds=7,
            unit="/s",
        )
