"""A round-robin balancer in front of HTTP replicas.

A few lines on the ASGI stack that the SDK brings along. A proxy that people run in production would be one more thing
to install on thirty laptops, and none comes as a Python wheel; this one has to show only that each request may land
on another replica.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade"}


def balancer(replicas: Sequence[str], served: list[str]) -> Starlette:
    """Return an app that hands each request to the next replica, and skips one that does not listen.

    Args:
        replicas: their URLs.
        served: gets the URL of the replica that answered each request, in order.
    """
    turns = itertools.cycle(replicas)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # A connection for each request: of one that is kept open and fails, nobody knows what came through.
        alone = httpx2.Limits(max_keepalive_connections=0)
        async with httpx2.AsyncClient(trust_env=False, timeout=60, limits=alone) as http:
            app.state.http = http
            yield

    async def forward(request: Request) -> Response:
        body = await request.body()
        headers = {name: value for name, value in request.headers.items() if name not in _HOP_BY_HOP}
        for _ in replicas:
            url = next(turns)
            try:
                answer = await request.app.state.http.request(request.method, url, content=body, headers=headers)
            except httpx2.ConnectError:
                continue  # it was never sent, so another replica may have it
            except httpx2.HTTPError:
                break  # it may have been carried out, so nobody else gets it
            served.append(url)
            kept = {name: value for name, value in answer.headers.items() if name not in _HOP_BY_HOP}
            return Response(answer.content, answer.status_code, kept)
        return Response("no replica answered", 502)

    return Starlette(routes=[Route("/mcp", forward, methods=["GET", "POST", "DELETE"])], lifespan=lifespan)
