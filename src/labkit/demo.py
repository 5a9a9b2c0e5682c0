"""The four moves against one legitimately issued `requestState`, across two replicas."""

from __future__ import annotations

import asyncio

from mcp import Client
from mcp.server import MCPServer

from labkit import attacks
from labkit.bucket import Bucket
from labkit.checks import logged_reasons
from labkit.lab import start
from labkit.replicas import replica

KEYS = [*(f"logs/2026-08-0{day}.log" for day in (1, 2, 3)), "secrets/root.key"]
_INVALID = "error -32602: Invalid or expired requestState"
EXPECTED = {
    "tamper one byte": _INVALID,
    "swap args to secrets/": _INVALID,
    "honest confirmation": "Purged 3 object(s): logs/2026-08-01.log, …",
    "replay same state": "REFUSED: this confirmation is used up or has expired. Look at what is there, and start over.",
}
_LEFT = {
    "tamper one byte": KEYS,
    "swap args to secrets/": KEYS,
    "honest confirmation": ["secrets/root.key"],
    "replay same state": KEYS,
}
_LOGGED = {"tamper one byte": ["seal"], "swap args to secrets/": ["request binding"]}


def main() -> int:
    """Run the moves with the ring, then with Transit, and print each verdict.

    Returns:
        0 when every verdict, and what each left in the bucket, is as it should be; else 1.
    """
    failures: list[str] = []
    with start() as lab:
        for title, codec in (("key ring in KV", "ring"), ("Transit", "transit")):
            bucket = Bucket()
            print(f"{title}: replica A asks, A and B are attacked, B confirms, A is shown the same state again")
            failures += asyncio.run(four_moves(replica(lab, bucket, codec), replica(lab, bucket, codec), bucket))
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


async def four_moves(a: MCPServer, b: MCPServer, bucket: Bucket) -> list[str]:
    """Make the four moves against replicas `a` and `b` of one bucket; print each verdict.

    Returns:
        One sentence for each verdict, or bucket afterwards, that is not what it should be; none when all is well.
    """
    failures: list[str] = []
    bucket.reset(KEYS)
    async with Client(a) as to_a, Client(b) as to_b:
        question = await attacks.ask(to_a, "logs/")
        for name, expected in EXPECTED.items():
            match name:
                case "tamper one byte":
                    move = attacks.tamper_one_byte(to_b, question)
                case "swap args to secrets/":
                    move = attacks.swap_arguments(to_a, question, "secrets/")
                case "honest confirmation":
                    move = attacks.confirm(to_b, question)
                case _:
                    bucket.reset(KEYS)  # the objects are back: a replay that works would have something to delete
                    move = attacks.replay(to_a, question)
            with logged_reasons() as reasons:
                said = await attacks.verdict(move)
            print(f"{name:<22} -> {said}")
            if said != expected:
                failures.append(f"{name} should have ended with: {expected}")
            if reasons != _LOGGED.get(name, []):
                failures.append(f"{name} was refused for another reason: {reasons}")
            if bucket.keys() != _LEFT[name]:
                failures.append(f"{name} should have left {_LEFT[name]}, and left {bucket.keys()}")
    return failures
