"""A server in this process behind a real port, so that clients in other languages reach it too."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from mcp.server import MCPServer
from starlette.types import ASGIApp


def http(server: MCPServer) -> ASGIApp:
    """Return `server` as an HTTP application."""
    return server.streamable_http_app(stateless_http=True, json_response=True)


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serve `app` on loopback, on a port that is free, in a thread of its own.

    Yields:
        The URL of the MCP endpoint. Whoever connects before the server is ready waits.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(app, log_config=None))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        running.should_exit = True
        thread.join()
        listening.close()
