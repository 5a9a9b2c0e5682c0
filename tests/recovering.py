"""What tests of recovery share: a janitor with a ledger, and moments at which something happens to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp import Client
from mcp.server import MCPServer
from mcp.server.request_state import RequestStateSecurity

from labkit import attacks
from labkit.attacks import text_of
from labkit.bucket import Bucket
from labkit.janitor import TOOL, build_janitor
from labkit.key_ring import load_key_ring
from labkit.lab import Lab
from labkit.ledger import Ledger
from labkit.single_use import SingleUse

KEYS = ["logs/1", "logs/2", "logs/3"]
PURGED = "Purged 3 object(s): logs/1, …"
PLAN = {"tool": TOOL, "arguments": {"prefix": "logs/"}, "principal": None, "keys": KEYS}


def plan_of(bucket: Bucket, /, **different: Any) -> dict[str, Any]:
    """A plan for this bucket, as a janitor with a ledger makes it."""
    return {**PLAN, "bucket": bucket.name, **different}


def janitor(
    lab: Lab, bucket: Bucket, ledger: Ledger | None, parking: type[SingleUse] = SingleUse, **parts: Any
) -> MCPServer:
    security = RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader")), ttl=120)
    single_use = parking(lab.client("confirmations"))
    for name, part in parts.items():
        setattr(single_use, name, part)
    return build_janitor(security, single_use, bucket, ledger=ledger)


class Hooked(Bucket):
    """Does something before it deletes the object under a key, once."""

    def __init__(self, bucket: Bucket, before: dict[str, Callable[[], object]]) -> None:
        super().__init__(bucket.folder)
        self.before = before

    def delete(self, key: str) -> bool:
        self.before.pop(key, lambda: None)()
        return super().delete(key)


class Redeeming(SingleUse):
    """Does something right after a claim was redeemed, before the purge is begun."""

    then: Callable[[], object]

    def redeem(self, claim: str) -> dict[str, Any]:
        plan = super().redeem(claim)
        self.then()
        return plan


class Parking(SingleUse):
    """Does something right after a plan was parked, before it is written down."""

    then: Callable[[], object]

    def issue(self, plan: dict[str, Any]) -> str:
        claim = super().issue(plan)
        self.then()
        return claim


def fails() -> None:
    raise PermissionError("read-only")


async def purge(server: MCPServer) -> str:
    async with Client(server) as client:
        return text_of(await attacks.confirm(client, await attacks.ask(client, "logs/")))
