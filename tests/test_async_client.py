"""AsyncClient calls OpenBao as the hvac client does that it was made for: same address, token, proxy, certificates."""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import gc
import ipaddress
import ssl
import threading
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hvac
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from echo_site import Site, echo_site

from labkit.async_client import AsyncClient
from labkit.openbao import Server

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def site(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with echo_site(monkeypatch) as site:
        yield site


def client_of(address: str, **options: Any) -> AsyncClient:
    return AsyncClient(Server(address, "s.root", **options).client("ns", token="s.token"))


async def test_openbao_is_asked_with_the_token_and_the_namespace_of_the_client(site: Site) -> None:
    hvac_client = Server(site.url, "s.root").client("ns", token="s.first")
    client = AsyncClient(hvac_client)
    assert await client.post("/v1/transit/encrypt/key", {"a": "ü"}) == (200, {"data": {}})
    hvac_client.token = "s.second"
    await client.post("/v1/transit/encrypt/key", {"a": "ü"})
    (method, path, first, body), (_, _, second, _) = site.asked
    assert (method, path, body) == ("POST", "/v1/transit/encrypt/key", b'{"a": "\\u00fc"}')
    assert (first["x-vault-namespace"], first["content-type"]) == ("ns", "application/json")
    assert (first["x-vault-token"], second["x-vault-token"]) == ("s.first", "s.second")


async def test_logging_in_again_holds_up_nobody(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    hvac_client, threads = Server(site.url, "s.root").client("ns", token="s.token"), []
    client = AsyncClient(hvac_client)

    async def forbidden(*_: object) -> tuple[int, bytes]:
        return 403, b"{}"

    def again(*_: object, **__: object) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return {"data": {}}

    monkeypatch.setattr(client, "_post", forbidden)
    monkeypatch.setattr(hvac_client.adapter, "post", again)
    assert await client.post("/v1", {}) == (200, {"data": {}})
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


@pytest.mark.parametrize("path", ["/", "/bao", "/bao/"])
async def test_openbao_may_lie_below_a_path(site: Site, path: str) -> None:
    """Anywhere else on that host, somebody else would be given the token."""
    hvac_client = Server(site.url + path, "s.root").client("ns", token="s.token")
    hvac_client.adapter.post("/v1/transit/encrypt/key", json={})
    await AsyncClient(hvac_client).post("/v1/transit/encrypt/key", {})
    assert [asked for _, asked, *_ in site.asked] == [path.rstrip("/") + "/v1/transit/encrypt/key"] * 2


async def test_a_connection_that_was_closed_meanwhile_is_no_outage(site: Site) -> None:
    client = client_of(site.url)
    for _ in range(20):
        assert (await client.post("/v1/hang-up", {}))[0] == 200
    assert len(site.asked) >= 20


async def test_no_redirect_is_followed_because_the_token_would_go_along(site: Site) -> None:
    assert (await client_of(site.url).post("/v1/redirect", {}))[0] == 307
    assert len(site.asked) == 1


async def test_a_body_that_is_cut_short_is_no_answer(site: Site) -> None:
    with pytest.raises(ConnectionError) as error:
        await client_of(site.url).post("/v1/cut-short", {})
    assert error.value.__context__ is None, "which may hold the request and its token"


async def test_nobody_there_is_an_error_of_the_operating_system(site: Site) -> None:
    with pytest.raises(OSError, match="Cannot connect"):
        await client_of("http://127.0.0.1:1").post("/v1", {})


async def test_a_large_body_arrives_whole_and_without_a_warning(site: Site) -> None:
    await client_of(site.url).post("/v1", {"a": "b" * 3_000_000})
    assert len(site.asked[0][3]) == 3_000_009


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_a_proxy_of_the_environment_is_used_only_for_a_server_that_is_not_ours(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheme: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", site.url.replace("http://", scheme))
    assert (await client_of("http://openbao.test").post("/v1/sys/health", {}))[0] == 200
    assert site.asked[0][1] == "http://openbao.test/v1/sys/health"
    with pytest.raises(OSError, match="Cannot connect"):
        await client_of("http://openbao.test", folder=tmp_path).post("/v1/sys/health", {})


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that nobody trusts by himself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "openbao.test")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(minutes=5))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + made.public_bytes(serialization.Encoding.PEM)
    path = tmp_path / "openbao.pem"
    path.write_bytes(pem)
    return path


async def test_a_certificate_is_checked_with_what_the_client_trusts(
    site: Site, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    site.socket = context.wrap_socket(site.socket, server_side=True)
    address = site.url.replace("http:", "https:")
    with pytest.raises(OSError, match=r"certificate verify failed|CERTIFICATE"):
        await client_of(address).post("/v1", {})
    empty = certificate.parent / "certificates"
    empty.mkdir()
    with pytest.raises(OSError, match=r"certificate verify failed|CERTIFICATE"):  # a folder is read as one
        await client_of(address, verify=str(empty)).post("/v1", {})
    assert (await client_of(address, verify=str(certificate)).post("/v1", {}))[0] == 200
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    assert (await client_of(address).post("/v1", {}))[0] == 200


@pytest.mark.parametrize("pair", [False, True])
async def test_who_we_are_is_shown_to_a_server_that_asks(site: Site, certificate: Path, pair: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    site.socket = context.wrap_socket(site.socket, server_side=True)
    address, mine = site.url.replace("http:", "https:"), str(certificate)
    client = AsyncClient(hvac.Client(address, token="s.token", verify=mine, cert=(mine, mine) if pair else mine))
    assert (await client.post("/v1", {}))[0] == 200
    with pytest.raises(OSError, match=r"^Server|^Client|^Cannot"):
        await client_of(address, verify=mine).post("/v1", {})


async def test_connections_are_closed_when_the_client_is_gone(site: Site) -> None:
    client = client_of(site.url)
    await client.post("/v1", {})
    http, gone = client._http, weakref.ref(client)
    del client
    gc.collect()
    assert gone() is None
    for _ in range(1000):
        if http.closed:
            return
        await asyncio.sleep(0.01)
    pytest.fail("not closed within 10 s")


def test_connections_are_closed_when_the_event_loop_ends(site: Site) -> None:
    async def use() -> Any:
        client = client_of(site.url)
        await client.post("/v1", {})
        return client._http

    assert asyncio.run(use()).closed


def test_nothing_is_kept_of_an_event_loop_that_was_closed_without_an_end(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """`asyncio.run` cancels what still runs; who closes a loop by hand may forget that."""
    loop = asyncio.new_event_loop()

    async def use() -> tuple[AsyncClient, weakref.ref[Any]]:
        client = client_of(site.url)
        await client.post("/v1", {})
        return client, weakref.ref(client._http)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # which says just what has been forgotten
        client, http = loop.run_until_complete(use())
        loop.close()
        del client
        gc.collect()
    assert http() is None


async def test_nothing_of_the_request_that_comes_first_is_kept(site: Site) -> None:
    class Login:
        """What a middleware may have put into the context of a request, such as a token."""

    login: contextvars.ContextVar[Login] = contextvars.ContextVar("login")

    async def request() -> tuple[AsyncClient, weakref.ref[Login]]:
        login.set(Login())
        return client_of(site.url), weakref.ref(login.get())

    client, kept = await asyncio.create_task(request())
    assert (await client.post("/v1", {}))[0] == 200
    gc.collect()
    assert kept() is None
