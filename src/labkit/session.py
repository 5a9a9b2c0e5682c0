"""A `requests` session that spends less time on each call to OpenBao."""

from __future__ import annotations

from typing import Any, cast

import requests
from requests.hooks import dispatch_hook


class PlainSession(requests.Session):
    """Sends a JSON request that follows no redirect without the search for forms, files, logins and cookies.

    For each call, `requests` prepares what a browser may need, and that takes as long as OpenBao does for its answer.
    Connections, certificates, proxies, time-outs, errors and hooks are those of `requests` here, too. What else there
    is to a request goes its usual way, and so does all after a server (a load balancer, say) has set a cookie. A login
    in a .netrc file is not sent: OpenBao knows none.

    Source: requests documentation, "Prepared requests" and "Transport adapters".
    """

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
        transport = {"proxies": proxies or {}, "verify": verify, "cert": cert}
        if allow_redirects or any(others.values()) or self.cookies or self.auth or self.params:
            given = {"headers": headers, "json": json, "timeout": timeout, "allow_redirects": allow_redirects}
            return super().request(method, url, **given, **transport, **others)
        request = requests.PreparedRequest()
        request.method, request.url = method.upper(), url
        request.prepare_headers(headers)
        request.prepare_body(None, None, json)
        settings: Any = self.merge_environment_settings(url, stream=False, **transport)
        answer = self.get_adapter(url).send(request, timeout=timeout, **settings)
        if answer.cookies:
            self.cookies.update(answer.cookies)
        answer = cast(requests.Response, dispatch_hook("response", self.hooks, answer))  # type: ignore[no-untyped-call]
        answer.content  # noqa: B018 - read here, so that what breaks off is an error of this call
        return answer
