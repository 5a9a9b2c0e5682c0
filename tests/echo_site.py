"""A web server that answers with little and notes what it was asked, for the tests of what calls OpenBao."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Site(ThreadingHTTPServer):
    """Answers with what it was asked; a path may ask for more.

    Attributes:
        asked: each request, as its method, path, headers (names in small letters) and body.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.command, self.path, headers, body))
        said = b'{"data": {}}'
        self.send_response(307 if "redirect" in self.path else 200)
        if "redirect" in self.path:
            self.send_header("Location", "/elsewhere")
        if "cookie" in self.path:
            self.send_header("Set-Cookie", "replica=2")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said) + 10 * ("cut-short" in self.path)))
        self.end_headers()
        self.wfile.write(said)
        self.close_connection = "cut-short" in self.path or "hang-up" in self.path  # without saying so

    do_GET = do_POST = do_PUT = do_LIST = do_DELETE = answer

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def echo_site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Such a server, in an environment that names neither proxies nor certificates."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    site = Site()
    thread = threading.Thread(target=site.serve_forever, args=(0.01,))
    thread.start()
    yield site
    site.shutdown()
    thread.join()
    site.server_close()
