"""Calls to OpenBao from the event loop, with the address, the token and the certificates of an hvac client."""

from __future__ import annotations

import asyncio
import contextvars
import io
import json
import os
import ssl
import weakref
from typing import Any

import aiohttp
import certifi
import hvac
import requests.utils

_LARGE = 2**20  # bytes; aiohttp sends more piece by piece, or warns that it holds up the event loop


class AsyncClient:
    """Posts JSON to OpenBao; belongs to one event loop, and its connections are closed when that loop ends.

    hvac stays in charge: what it is logged in with is read for each call, and a login that has died is renewed by it.

    Source: aiohttp documentation, "Client".
    """

    def __init__(self, client: hvac.Client) -> None:
        """Be ready to call OpenBao as `client`, which is used for nothing here but logging in again."""
        self._client = client
        session: requests.Session = client.adapter.session
        address = str(client.adapter.base_uri)
        settings: Any = session.merge_environment_settings(address, {}, False, session.verify, session.cert)
        proxy = requests.utils.select_proxy(address, settings["proxies"])
        self._proxy = f"http://{proxy}" if proxy and "://" not in proxy else proxy  # as `requests` reads it
        self._tls = _tls(settings["verify"], settings["cert"]) if address.startswith("https:") else True
        self._address = address.rstrip("/")  # with a path, perhaps, which a base address of aiohttp would lose
        self._http = aiohttp.ClientSession()
        # It outlives the request that comes first, so nothing of that may cling to it.
        nobody = contextvars.Context()
        keeper = asyncio.create_task(_close_at_the_end(self._http), context=nobody)
        _keepers.add(keeper)
        keeper.add_done_callback(_keepers.discard, context=nobody)
        weakref.finalize(self, _end, asyncio.get_running_loop(), keeper).atexit = False

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the JSON of an answer. Asks again if need be, so only for what may happen twice.

        Raises:
            OSError: OpenBao cannot be reached.
            ValueError: what answered is not OpenBao.
            OpenBaoUnavailable: it refuses to let us log in again.
        """
        status, content = await self._post_again_if_need_be(path, body)
        if status != 403:
            return status, json.loads(content)
        # A dead token, perhaps: hvac's client finds out, and logs in again.
        answer = await asyncio.to_thread(self._client.adapter.post, path, json=body, raise_exception=False)
        return (200, answer) if isinstance(answer, dict) else (answer.status_code, answer.json())

    async def _post_again_if_need_be(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """A connection that was kept may be closed at its other end, which shows only when it is used."""
        failed = ""
        for _ in range(3):  # two are kept, at most: one seals, and one opens
            try:
                return await self._post(path, body)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                failed = type(error).__name__
            except aiohttp.ClientError as error:
                failed = type(error).__name__
                break
        raise ConnectionError(failed)  # outside of the handlers, as some of these errors hold the request and its token

    async def _post(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        headers = {"X-Vault-Token": str(self._client.token), "X-Vault-Request": "true"}
        headers["Content-Type"] = "application/json"
        if self._client.adapter.namespace:
            headers["X-Vault-Namespace"] = self._client.adapter.namespace
        data = json.dumps(body).encode()
        async with self._http.post(
            self._address + path,
            data=data if len(data) < _LARGE else io.BytesIO(data),
            headers=headers,
            proxy=self._proxy,
            ssl=self._tls,
            allow_redirects=False,
        ) as answer:
            return answer.status, await answer.read()


_keepers: set[asyncio.Task[None]] = set()  # asyncio itself holds no task fast


async def _close_at_the_end(http: aiohttp.ClientSession) -> None:
    """Wait for the end of the event loop, which cancels what still runs, or for that of the client."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:  # no `finally`: on a loop that was closed without that, nothing can wait any more
        await http.close()
        raise


def _end(loop: asyncio.AbstractEventLoop, keeper: asyncio.Task[None]) -> None:
    try:
        loop.call_soon_threadsafe(keeper.cancel)
    except RuntimeError:  # the loop has ended; if it cancelled nothing, the connections go with the task
        _keepers.discard(keeper)


def _tls(verify: bool | str, cert: Any) -> ssl.SSLContext | bool:
    """The context for what `requests` calls `verify` and `cert`."""
    if not verify:
        return False
    trusted = certifi.where() if verify is True else str(verify)
    is_folder = os.path.isdir(trusted)
    context = ssl.create_default_context(cafile=None if is_folder else trusted, capath=trusted if is_folder else None)
    if cert:
        context.load_cert_chain(*([cert] if isinstance(cert, str) else cert))
    return context
