"""A `requests` session that spends less time on each call to OpenBao."""

from __future__ import annotations

from typing import Any, cast

import requests
import urllib3.exceptions
from requests.adapters import HTTPAdapter
from requests.cookies import extract_cookies_to_jar
from requests.hooks import dispatch_hook
from requests.structures import CaseInsensitiveDict

_POOL = 64  # connections; hvac's own pool of 10 throws away what 64 concurrent rounds open


class PlainSession(requests.Session):
    """Sends a JSON request that follows no redirect without the search for forms, files, logins and cookies.

    For each call, `requests` prepares what a browser may need, and that takes as long as OpenBao does for its answer.
    Connections, certificates, proxies, time-outs, errors and hooks are those of `requests` here, too. What else there
    is to a request goes its usual way, and so does all after a server (a load balancer, say) has set a cookie. A login
    in a .netrc file is not sent: OpenBao knows none.

    Source: requests documentation, "Prepared requests" and "Transport adapters".
    """

    def __init__(self) -> None:
        """Make a session; it is meant for one server."""
        super().__init__()
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter())

    def request(  # type: ignore[override]
        self,
        method: str,
        url: str,
        *,
        headers: Any = None,
        json: Any = None,
        timeout: Any = None,
        proxies: Any = None,
        verify: Any = None,
        cert: Any = None,
        allow_redirects: bool = True,
        **others: Any,
    ) -> requests.Response:
        """Send one request, and return the answer; see `requests.Session.request` for what goes in and is raised."""
        transport: dict[str, Any] = {"proxies": proxies or {}, "verify": verify, "cert": cert}
        if allow_redirects or any(others.values()) or self.cookies or self.auth or self.params:
            given = {"headers": headers, "json": json, "timeout": timeout, "allow_redirects": allow_redirects}
            return super().request(method, url, **given, **transport, **others)
        request = requests.PreparedRequest()
        request.method, request.url = method.upper(), url
        request.prepare_headers(headers)
        request.prepare_body(None, None, json)
        if self.trust_env or self.proxies or self.cert or verify is None:
            transport = dict(self.merge_environment_settings(url, stream=False, **transport))
        answer = self.get_adapter(url).send(request, timeout=timeout, **transport)
        if answer.cookies:
            self.cookies.update(answer.cookies)
        return cast(requests.Response, dispatch_hook("response", self.hooks, answer))  # type: ignore[no-untyped-call]


class _Adapter(HTTPAdapter):
    """Finds the connections to a server once, and reads an answer whole, as all of OpenBao's are short."""

    def __init__(self) -> None:
        super().__init__(pool_maxsize=_POOL)
        self._pools: dict[tuple[str, Any, Any], Any] = {}

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, verify: Any, proxies: Any = None, cert: Any = None
    ) -> Any:
        if proxies:
            return super().get_connection_with_tls_context(request, verify, proxies, cert)
        key = ("/".join(str(request.url).split("/", 3)[:3]), verify, cert)
        if key not in self._pools:
            self._pools[key] = super().get_connection_with_tls_context(request, verify, proxies, cert)
        return self._pools[key]

    def close(self) -> None:
        super().close()
        self._pools = {}

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        return super().request_url(request, proxies) if proxies else "/" + str(request.url).split("/", 3)[3]

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        answer = requests.Response()
        try:
            answer._content = resp.read(decode_content=True)
        except urllib3.exceptions.ProtocolError as error:
            raise requests.exceptions.ChunkedEncodingError(error, request=req) from None
        except urllib3.exceptions.HTTPError as error:
            raise requests.ConnectionError(error, request=req) from None
        answer.status_code, answer.reason, answer.url = resp.status, resp.reason, str(req.url)
        answer.headers, answer.encoding = CaseInsensitiveDict(resp.headers), "utf-8"
        answer.raw, answer.request = resp, req
        if "set-cookie" in answer.headers:
            extract_cookies_to_jar(answer.cookies, req, resp)  # type: ignore[no-untyped-call]
        return answer
