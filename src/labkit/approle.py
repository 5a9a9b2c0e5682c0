"""A client that logs in by AppRole, and again by itself when its token has died."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import hvac
import hvac.exceptions
import requests

from labkit.errors import OpenBaoUnavailable, outage, part
from labkit.openbao import Server, StrictAdapter


def log_in(server: Server, namespace: str, role: str, role_id: str, secret_id: str) -> hvac.Client:
    """Return a client logged in as `role`. hvac itself renews nothing; this one logs in again when it has to.

    Args:
        server: where to log in.
        namespace: where the role lives.
        role: its name, for messages.
        role_id, secret_id: its credentials; kept in memory, never shown.

    Raises:
        OpenBaoUnavailable: the login is refused, or the server cannot be reached.

    Source: OpenBao documentation, "AppRole auth method".
    """
    client = server.client(namespace, partial(_AppRoleAdapter, role=role, role_id=role_id, secret_id=secret_id))
    client.adapter.log_in(dead="")  # type: ignore[attr-defined]
    return client


_REFUSED = (hvac.exceptions.InvalidRequest, hvac.exceptions.Forbidden, hvac.exceptions.InvalidPath)


class _AppRoleAdapter(StrictAdapter):
    def __init__(self, *args: Any, role: str, role_id: str, secret_id: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._role = role
        self._credentials = {"role_id": role_id, "secret_id": secret_id}
        self._lock = threading.Lock()
        self._ended = False

    @property
    def identity(self) -> tuple[str, str]:
        """The role, and the secret-id that it logs in with."""
        return self._role, self._credentials["secret_id"]

    def request(self, method: str, url: str, headers: Any = None, raise_exception: bool = True, **kwargs: Any) -> Any:
        used = self.token
        answer = super().request(method, url, headers=headers, raise_exception=False, **kwargs)
        # A 403 never took effect, so asking again is safe; but only a dead token is a reason to.
        if _status(answer) == 403 and (self.token != used or self._is_dead()):
            self.log_in(dead=used)
            answer = super().request(method, url, headers=headers, raise_exception=False, **kwargs)
        if raise_exception and isinstance(answer, requests.Response) and not answer.ok:
            self._raise_for_error(method, url, answer)  # type: ignore[attr-defined]
        return answer

    def log_in(self, dead: str | None) -> None:
        with self._lock:
            if self.token != dead:  # another thread was faster
                return
            if self._ended:  # a login that was refused for good is not tried again: some servers count them
                raise self._refused()
            try:
                with outage(f"logging in as {self._role}", passing=_REFUSED):
                    answer = super().request("post", "/v1/auth/approle/login", json=self._credentials)
                    self.token = str(part(part(answer, "auth"), "client_token"))
            except _REFUSED as error:
                self._ended = isinstance(error, hvac.exceptions.InvalidRequest)
                raise self._refused() from None

    def _refused(self) -> OpenBaoUnavailable:
        return OpenBaoUnavailable(
            f"OpenBao refused the AppRole login of {self._role}: its secret-id is unknown, used up or expired, or the "
            "namespace in BAO_NAMESPACE was not provisioned; provision it, and start this anew with those credentials."
        )

    def _is_dead(self) -> bool:
        return _status(super().request("get", "/v1/auth/token/lookup-self", raise_exception=False)) == 403


def _status(answer: Any) -> int:
    """The status of what `JSONAdapter.request` returns: a dict stands for 200."""
    return answer.status_code if isinstance(answer, requests.Response) else 200
