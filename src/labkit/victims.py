"""Servers to be attacked: the janitor behind each way of sealing, and its twin that parks no plan."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import hvac
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.request_state import (
    InvalidRequestState,
    RequestStateBoundary,
    RequestStateCodec,
    RequestStateSecurity,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)

from labkit import replicas
from labkit.bucket import Bucket
from labkit.errors import LabError
from labkit.janitor import NAME, QUESTION, REFUSALS, TOOL, build_janitor
from labkit.lab import Lab
from labkit.provision import TRANSIT_KEY
from labkit.single_use import SingleUse

NOTHING, EPHEMERAL, TEN_LINES = "nothing", "ephemeral", "ten-line transit"
DEFENSES = (NOTHING, EPHEMERAL, "ring", "envelope", "transit", TEN_LINES)
"""How `requestState` can be sealed: not at all, with a key of the process, or in one of the ways of `replicas`."""
ARCHIVE = "archive_objects"
"""The victim's other tool, which deletes nothing."""
KEYS = ("logs/1", "logs/2", "secrets/root.key")
"""What lies in a victim's bucket."""
DENIED = "this state is on the denylist"
_FORM: dict[str, Any] = {"type": "object", "properties": {"confirm": {"type": "boolean"}}}
Answer = str | CallToolResult | InputRequiredResult
Remember = Callable[[str, str, list[str]], dict[str, Any]]


class Watched(Bucket):
    """A bucket that counts how often each key was to be deleted, found or not.

    Attributes:
        deletions: for each key, how often.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deletions: Counter[str] = Counter()

    def delete(self, key: str) -> bool:
        """Count, and delete as any bucket does."""
        self.deletions[key] += 1
        return super().delete(key)

    def restock(self, keys: tuple[str, ...] = KEYS) -> None:
        """Put every object back, and begin to count anew."""
        self.reset(keys)
        self.deletions.clear()


class Noted(SingleUse):
    """Single use whose claims somebody else sees, too: in a proxy, in a memory dump.

    Attributes:
        claims: those that were issued, oldest first.
    """

    def __init__(self, client: hvac.Client, ttl: int = 120) -> None:
        super().__init__(client, ttl)
        self.claims: list[str] = []

    def issue(self, plan: dict[str, Any]) -> str:
        """Park a plan as `SingleUse` does, and note its claim."""
        self.claims.append(super().issue(plan))
        return self.claims[-1]


class TenLineCodec:
    """The Transit codec of ten lines: broken, to be attacked, not to be used. It takes many spellings of a token."""

    def __init__(self, client: hvac.Client, key: str = TRANSIT_KEY) -> None:
        self._transit, self._key = client.secrets.transit, key

    def seal(self, payload: bytes) -> str:
        """Return what Transit makes of `payload`."""
        text = base64.b64encode(payload).decode()
        return str(self._transit.encrypt_data(self._key, text)["data"]["ciphertext"])

    def unseal(self, token: str) -> bytes:
        """Return what Transit makes of `token`; raises what hvac raises."""
        if not token.startswith("vault:"):
            raise InvalidRequestState("malformed")
        return base64.b64decode(self._transit.decrypt_data(self._key, token)["data"]["plaintext"])


class Denylist:
    """Middleware that lets each string through once: what many take for single use. It forgets nothing."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        state = (ctx.params or {}).get("requestState")
        if state in self._seen:
            raise MCPError(code=-32000, message=DENIED)
        if state is not None:
            self._seen.add(state)
        return await call_next(ctx)


class Victim:
    """One service with one defense: as many servers of it as an attack needs, over one bucket.

    Attributes:
        defense: one of `DEFENSES`.
        single_use: whether plans are parked in OpenBao; otherwise they travel in the state.
        bucket: what is purged; it counts.
        claims: where plans are parked, if they are.
        codec: what seals; None where nothing does.
    """

    def __init__(self, lab: Lab, defense: str, single_use: bool) -> None:
        """Log in and load keys, as a server does when it starts.

        Raises:
            LabError: there is no such defense.
            OpenBaoUnavailable: OpenBao is away, or refuses our token.
        """
        if defense not in DEFENSES:
            raise LabError(f"There is no defense {defense!r}: use one of {'; '.join(DEFENSES)}.")
        self.defense, self.single_use = defense, single_use
        self.bucket = Watched()
        self._lab = lab
        self._parking = lab.client("confirmations") if single_use else None
        self.claims = Noted(self._parking) if self._parking is not None else None
        self._sealing = self._codec()
        self.codec = None if defense == NOTHING else self._sealing

    @property
    def name(self) -> str:
        """The defense in words, as a column of the board is headed."""
        return f"{self.defense} + single use" if self.single_use else self.defense

    def server(
        self, user: str = "alice", *, ttl: float = 120, audience: str = NAME, denylist: bool = False
    ) -> MCPServer:
        """Return a server of this service, as one user meets it after signing in.

        Args:
            user: who is signed in; what seals binds states to them.
            ttl: seconds that a round may take; a claim lives for whole ones, at least one.
            audience: the service's name; another one makes it another service, with a bucket and a process of its own.
            denylist: let each spelling of a state through once.
        """
        other = audience != NAME
        bucket = Watched() if other else self.bucket
        if other:
            bucket.restock()
        # Keys of a process are not another process's; everything else is shared by services of one operator.
        codec = self._codec() if other and self.defense == EPHEMERAL else self._sealing
        security = RequestStateSecurity(codec=codec, ttl=ttl, audience=audience, bind_principal=lambda _: user)
        if self._parking is None or self.claims is None:
            server = stateless_janitor(security, bucket)
            _open_doors(server, bucket, lambda door, prefix, keys: {"files": keys})
        else:
            claims = self.claims if ttl >= 1 and ttl == self.claims.ttl else Noted(self._parking, max(1, int(ttl)))
            server = build_janitor(security, claims, bucket)
            _open_doors(server, bucket, _parked(claims, user))
        if self.defense == NOTHING:
            server.middleware[:] = [m for m in server.middleware if not isinstance(m, RequestStateBoundary)]
        if denylist:
            server.middleware.insert(0, Denylist())
        return server

    def _codec(self) -> RequestStateCodec:
        match self.defense:
            case "nothing" | "ephemeral":  # the former only so that the server can be built, before it is taken off
                return RequestStateSecurity.ephemeral().codec
            case "ten-line transit":
                return TenLineCodec(self._lab.client("transit"))
            case _:
                return replicas.security(self.defense, self._lab.client(replicas.role_for(self.defense))).codec


def stateless_janitor(security: RequestStateSecurity, bucket: Bucket) -> MCPServer:
    """Return a `storage-janitor` whose plan travels in the state: all that protects it is what seals.

    Args:
        security: how `requestState` is sealed.
        bucket: what is purged.
    """
    server = MCPServer(NAME, request_state_security=security, log_level="WARNING")

    @server.tool(structured_output=False)
    def purge_objects(prefix: str, ctx: Context) -> Answer:
        if ctx.request_state is None:
            return _question(prefix, {"files": bucket.keys(prefix)})
        response = (ctx.input_responses or {}).get(QUESTION)
        if not isinstance(response, ElicitResult) or (response.action, response.content) != (
            "accept",
            {"confirm": True},
        ):
            return "Declined: nothing was purged."
        try:
            files = json.loads(ctx.request_state)["files"]
        except (ValueError, KeyError, TypeError):
            return CallToolResult(content=[TextContent(text=REFUSALS["foreign state"])], is_error=True)
        gone = [key for key in files if bucket.delete(key)]
        return f"Purged {len(gone)} object(s)"

    return server


def _open_doors(server: MCPServer, bucket: Bucket, remember: Remember) -> None:
    """Give a janitor a second tool, a prompt and a resource, which ask as it does and delete nothing."""

    def ask_or_report(door: str, prefix: str, ctx: Context) -> Answer:
        return "done" if ctx.request_state else _question(prefix, remember(door, prefix, bucket.keys(prefix)))

    @server.tool(structured_output=False)
    def archive_objects(prefix: str, ctx: Context) -> Answer:
        return ask_or_report(ARCHIVE, prefix, ctx)

    @server.prompt(name=TOOL)
    def prompt(prefix: str, ctx: Context) -> Any:
        return ask_or_report("prompt", prefix, ctx)

    @server.resource("bucket://{name}")
    def page(name: str, ctx: Context) -> Any:
        return ask_or_report("resource", f"{name}/", ctx)


def _parked(claims: SingleUse, user: str) -> Remember:
    def remember(door: str, prefix: str, keys: list[str]) -> dict[str, Any]:
        plan = {"tool": door, "arguments": {"prefix": prefix}, "principal": user, "keys": keys}
        return {"claim": claims.issue(plan)}

    return remember


def _question(prefix: str, notes: dict[str, Any]) -> InputRequiredResult:
    form = ElicitRequestFormParams(message=f"Go on with {prefix!r}?", requested_schema=_FORM)
    return InputRequiredResult(
        input_requests={QUESTION: ElicitRequest(params=form)},
        request_state=json.dumps({"step": "confirm", **notes}),
    )
