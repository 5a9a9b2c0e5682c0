"""A round-robin balancer in front of HTTP replicas.

A few lines on the ASGI stack that the SDK brings along. A proxy that people run in production would be one more thing
to install on thirty laptops, and none comes as a Python wheel; this one has to show only that each request may land
on another replica. It serves loopback, and is not for production.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_HOP_BY_HOP = {b"connection", b"content-length", b"keep-alive", b"transfer-encoding", b"upgrade"}
_PATIENCE = 60  # seconds for one request, whatever the replica is waiting for
_LARGEST = 4_000_000  # bytes of a request; the SDK's own limit is lower


def balancer(replicas: Sequence[str], served: list[str]) -> Starlette:
    """Return an app that hands each `POST` to the next replica, and skips one that does not listen.

    Args:
        replicas: their URLs.
        served: gets the URL of the replica that answered each request, in order.
    """
    turns = itertools.cycle(replicas)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # A connection for each request: of one that is kept open and fails, nobody knows what came through.
        alone = httpx2.Limits(max_keepalive_connections=0)
        async with httpx2.AsyncClient(trust_env=False, timeout=_PATIENCE, limits=alone) as http:
            app.state.http = http
            yield

    async def forward(request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LARGEST:
                return Response("the request is too large", 413)
        # The Host that the client named too, so that the replica can check it.
        headers = [(name, value) for name, value in request.headers.raw if name not in _HOP_BY_HOP]
        for _ in replicas:
            url = next(turns)
            try:
                async with asyncio.timeout(_PATIENCE):
                    answer = await request.app.state.http.post(url, content=bytes(body), headers=headers)
            except httpx2.ConnectError:
                continue  # it was never sent, so another replica may have it
            except (httpx2.HTTPError, TimeoutError):
                break  # it may have been carried out, so nobody else gets it
            served.append(url)
            reply = Response(answer.content, answer.status_code)
            reply.raw_headers += [(k.lower(), v) for k, v in answer.headers.raw if k.lower() not in _HOP_BY_HOP]
            return reply
        return Response("no replica answered", 502)

    return Starlette(routes=[Route("/mcp", forward, methods=["POST"])], lifespan=lifespan)


class Balancer:
    """A balancer in a thread of its own, which an Interrupt of the kernel does not reach.

    Attributes:
        url: where it serves.
    """

    def __init__(self, urls: list[str], served: list[str]) -> None:
        """Serve the replicas at `urls` on a free port; `served` is as for `balancer`."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/mcp"
        # Whoever is still waiting for an answer when it closes is cut off, which is no error to print a traceback for.
        config = uvicorn.Config(balancer(urls, served), log_level="critical", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listening]}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, and cut off whoever still waits."""
        self._server.should_exit = True
        if threading.current_thread() is not self._thread:  # any thread may come to collect what nobody uses any more
            self._thread.join(timeout=5)
            self._listening.close()
