"""Key custody without blocking the event loop: the same tokens as `TransitCodec`, sealed and opened in batches."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import hvac
import hvac.exceptions
import hvac.utils
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.request_state import InvalidRequestState, RequestStateBoundary
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from mcp_types.methods import INPUT_REQUIRED_METHODS, is_input_required

from labkit.async_client import AsyncClient
from labkit.batching import BatchQueue, Full
from labkit.errors import LabError, outage, part, said
from labkit.provision import TRANSIT_KEY
from labkit.transit import FORMAT, cannot_use, check_length, ciphertext_of, refusal, token_of

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_Sealing = BatchQueue[bytes, str]
_Opening = BatchQueue[str, bytes]
_MOST = 200  # items in a call: OpenBao refuses JSON of more than 1,000 strings, and an item has four
_SIZE = 1_000_000  # characters of states in a call; OpenBao answers 413 above 32 MiB, to all of them
BUSY = "Server busy: make the same call again"
"""What a client is told when too many rounds wait for OpenBao. Its state and its claim are as good as before."""


class BatchedTransit:
    """A `RequestStateCodec` like `TransitCodec`, whose calls to OpenBao hold up nobody.

    The SDK calls a codec on the event loop and waits. So the work is done around that, by a middleware just outside
    the SDK's boundary: it opens a state before the boundary asks for it, and seals one after the boundary has handed
    it over. States of concurrent rounds travel to OpenBao together. Without the middleware, nothing is sealed and
    nothing opened.

    Source: SDK, `mcp.server.request_state` and `MCPServer.middleware`; OpenBao documentation, "Transit",
    `batch_input`.
    """

    def __init__(
        self,
        client: hvac.Client,
        key: str = TRANSIT_KEY,
        *,
        batch: int = 64,
        wait: float = 0.0,
        room: int = 1024,
        timeout: float = 5.0,
    ) -> None:
        """Seal with the Transit key named `key`; `client` needs the role `transit`. Then `attach` it to a server.

        Args:
            batch: states in one call to OpenBao, at most: 1 to 200.
            wait: seconds that a batch waits for more states. With 0 it goes as soon as the call before it is back.
            room: states that may wait for a call; who comes then is told that the server is busy, before it does
                anything for them.
            timeout: seconds until a state is given up, waiting included.

        Raises:
            ValueError: a number is out of range.
        """
        if batch not in range(1, _MOST + 1):
            raise ValueError(f"a batch has 1 to {_MOST} states, not {batch!r}")
        if not (0 <= wait < timeout < float("inf")):
            raise ValueError(f"a batch waits for less than the time-out of {timeout!r} s, not {wait!r} s")
        if not room >= 1:
            raise ValueError(f"one state at least may wait, not {room!r}")
        self._client, self._key = client, key
        self._limits: dict[str, Any] = {"batch": batch, "wait": wait, "room": room, "timeout": timeout, "size": _SIZE}
        self._queues: dict[asyncio.AbstractEventLoop, tuple[_Sealing, _Opening]] = {}
        self._rounds: dict[asyncio.Task[Any], _Round] = {}

    def attach(self, server: Any) -> None:
        """Put the middleware in front of the boundary of `server`, an `MCPServer` or a lowlevel `Server`.

        Raises:
            LabError: the server has no boundary yet, or is attached already.
        """
        if self._around in server.middleware:
            raise LabError(f"This codec is attached to {server.name} already: once is enough.")
        for place, middleware in enumerate(server.middleware):
            if isinstance(middleware, RequestStateBoundary):
                server.middleware[place : place + 1] = [self._around, middleware, self._inside]
                return
        raise LabError(f"{server.name} has no RequestStateBoundary: append one to its middleware first.")

    def seal(self, payload: bytes) -> str:
        """Keep `payload` for the middleware, and return what it replaces by the token.

        Raises:
            LabError: the middleware is not there.
            ValueError: no token can hold `payload`; none of the same batch may suffer from that.
        """
        check_length(payload)
        return self._round().hand_over(payload)

    def unseal(self, token: str) -> bytes:
        """Return the payload of `token`, which the middleware has opened.

        Raises:
            InvalidRequestState: as `TransitCodec.unseal`, for each string that was not minted just so.
            OpenBaoUnavailable: OpenBao is away or too slow, refuses our token, or lacks the key.
            LabError: the middleware is not there.
        """
        return self._round().payload_of(token)

    def _round(self) -> _Round:
        with contextlib.suppress(RuntimeError):  # no event loop
            if (task := asyncio.current_task()) in self._rounds:
                return self._rounds[task]
        raise LabError(
            "BatchedTransit does nothing without its middleware: call attach(server) when you make the server."
        )

    async def _around(self, context: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """The middleware: open what comes, let the boundary and the server do their work, seal what goes."""
        if context.method not in INPUT_REQUIRED_METHODS:
            return await call_next(context)
        sealing, opening = self._queues_here()
        if sealing.full:  # then the answer could not be sealed, so nothing is begun
            raise _busy(context.method)
        this = _Round()
        await this.open(context, opening)
        task: Any = asyncio.current_task()
        self._rounds[task] = this
        try:
            result = await call_next(context)
        finally:
            self._rounds.pop(task, None)
        return await this.close(context.method, result, sealing)

    async def _inside(self, context: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """The middleware behind the boundary: what the server does in there, with other servers too, is not its round.

        In memory, a server that a tool calls runs in the task of the tool.
        """
        task: Any = asyncio.current_task()
        this = self._rounds.pop(task, None)
        try:
            return await call_next(context)
        finally:
            if this is not None:
                self._rounds[task] = this

    def _queues_here(self) -> tuple[_Sealing, _Opening]:
        loop = asyncio.get_running_loop()
        if loop not in self._queues:
            for ended in [each for each in list(self._queues) if each.is_closed()]:  # another thread may add its own
                self._queues.pop(ended, None)
            client = AsyncClient(self._client)
            self._queues[loop] = (
                BatchQueue(partial(self._encrypt, client), self._doing("sealing"), **self._limits),
                BatchQueue(partial(self._decrypt, client), self._doing("unsealing"), **self._limits),
            )
        return self._queues[loop]

    def _doing(self, what: str) -> str:
        return f"{what} with the Transit key {self._key}"

    async def _encrypt(self, client: AsyncClient, payloads: list[bytes]) -> list[str | Exception]:
        items = [{"plaintext": base64.b64encode(payload).decode()} for payload in payloads]
        results = await self._ask(client, self._doing("sealing"), "encrypt", items)
        return [self._one(result, lambda good: token_of(good["ciphertext"])) for result in results]

    async def _decrypt(self, client: AsyncClient, ciphertexts: list[str]) -> list[bytes | Exception]:
        items = [{"ciphertext": ciphertext} for ciphertext in ciphertexts]
        results = await self._ask(client, self._doing("unsealing"), "decrypt", items)
        return [self._one(result, lambda good: base64.b64decode(good["plaintext"])) for result in results]

    async def _ask(self, client: AsyncClient, doing: str, verb: str, items: list[dict[str, str]]) -> list[Any]:
        """Call Transit once for all `items`, and return what it says of each."""
        answers = (hvac.exceptions.InvalidRequest, hvac.exceptions.InvalidPath)
        path = f"/v1/transit/{verb}/{self._key}"
        body = {"batch_input": [{**item, "associated_data": FORMAT} for item in items]}
        try:
            with outage(doing, passing=answers):
                status, content = await client.post(path, body)
                # One bad item makes the status 400, and the results of all are there nevertheless.
                if status not in (200, 400) or not content.get("data"):
                    hvac.utils.raise_for_error("post", path, status, errors=content.get("errors"))
                return list(part(part(content, "data"), "batch_results"))
        except answers as error:
            raise cannot_use(self._key, said(error)) from None

    def _one(self, item: dict[str, Any], read: Callable[[dict[str, Any]], _T]) -> _T | Exception:
        try:
            if not (text := item.get("error")):
                return read(item)
            if reason := refusal(text):
                return InvalidRequestState(reason)
            return cannot_use(self._key, said(hvac.exceptions.InvalidRequest(errors=[text])))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            return error  # no result of OpenBao's, or a token too long: of this round only


class _Round:
    """What one request brings and takes: a state that was opened, and one that waits to be sealed."""

    def __init__(self) -> None:
        self._token: str | None = None
        self._opened: bytes | Exception = InvalidRequestState("malformed")
        self._payload: bytes | None = None
        self._place = ""  # what stands for a token that is not there yet; worth nothing

    async def open(self, context: ServerRequestContext[Any, Any], queue: _Opening) -> None:
        """Open the state that came, if one did; what is wrong with it is for the boundary to hear."""
        token = (context.params or {}).get("requestState")
        if not isinstance(token, str):
            return
        self._token = token
        try:
            self._opened = await queue.ask(ciphertext_of(token))
        except Full:
            raise _busy(context.method) from None
        except Exception as error:  # deny on error, as the boundary does
            self._opened = error

    def payload_of(self, token: str) -> bytes:
        """What was in `token`, if that is the one that was opened."""
        if token != self._token:
            raise LabError(
                "The state was exchanged between BatchedTransit and the SDK's boundary: put nothing in between."
            )
        if isinstance(self._opened, Exception):
            raise self._opened
        return self._opened

    def hand_over(self, payload: bytes) -> str:
        """Keep `payload` to be sealed, and return what stands for its token meanwhile."""
        self._payload, self._place = payload, f"unsealed-{secrets.token_urlsafe(16)}"
        return self._place

    async def close(self, method: str, result: HandlerResult, queue: _Sealing) -> HandlerResult:
        """Put the token into `result`, if there is one to be put."""
        if self._payload is None:
            return result
        try:
            model_state = getattr(result, "request_state", None)
            state = result.get("requestState") if isinstance(result, Mapping) else model_state
            if not is_input_required(result) or state != self._place:
                raise LabError(
                    "the result has no place for the state: put nothing between BatchedTransit and the boundary"
                )
            token = await queue.ask(self._payload, turn_away=False)  # what the server has done can not be undone
        except Exception:  # deny on error, as the boundary does
            logger.exception("requestState could not be sealed on %s", method)
            raise MCPError(code=INTERNAL_ERROR, message="Internal error") from None
        if isinstance(result, Mapping):
            return {**result, "requestState": token}
        return result.model_copy(update={"request_state": token})


def _busy(method: str) -> MCPError:
    logger.error("%s refused: OpenBao cannot follow, and the queue of requestStates is full", method)
    return MCPError(code=INTERNAL_ERROR, message=BUSY)
