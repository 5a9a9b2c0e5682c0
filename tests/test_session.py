"""PlainSession leaves out what OpenBao needs not, and nothing else: it is held against what `requests` itself does."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from echo_site import Site, echo_site

from labkit.openbao import Server
from labkit.session import PlainSession

OF_ITSELF = ("user-agent", "accept", "accept-encoding")  # what requests says of itself, and offers to unpack


@pytest.fixture
def site(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with echo_site(monkeypatch) as site:
        yield site


@pytest.fixture
def session() -> Iterator[PlainSession]:
    with PlainSession() as session:
        yield session


def call(session: requests.Session, url: str, method: str = "post", **options: Any) -> requests.Response:
    """As hvac calls."""
    given = {"headers": {"X-Vault-Token": "s.token"}, "json": {"a": "ü"}, "allow_redirects": False, "timeout": 30}
    return session.request(method, url, **{**given, **options})


@pytest.mark.parametrize("method", ["get", "post", "put", "list", "delete"])
@pytest.mark.parametrize("body", [None, {}, {"batch_input": [{"plaintext": "YQ=="}]}])
def test_openbao_is_asked_the_same_as_by_requests(site: Site, session: PlainSession, method: str, body: Any) -> None:
    for path in ("/v1/transit/encrypt/key", "/v1/secret/data/a b?version=1", "/v1/secret/ü%20"):
        told = [call(each, site.url + path, method, json=body) for each in (session, requests.Session())]
        (ours, theirs), site.asked[:] = site.asked, []
        sent = [{k: v for k, v in headers.items() if k not in OF_ITSELF} for *_, headers, _ in (ours, theirs)]
        assert (ours[0], ours[1], json.loads(ours[3] or "0")) == (theirs[0], theirs[1], json.loads(theirs[3] or "0"))
        assert {**sent[0], "connection": "keep-alive"} == sent[1]
        assert told[0].json() == told[1].json() == {"data": {}}
        assert told[0].status_code == told[1].status_code


def test_a_connection_is_used_again(site: Site, session: PlainSession) -> None:
    for _ in range(3):
        call(session, site.url + "/v1")
    (pool,) = session.get_adapter(site.url).poolmanager.pools._container.values()  # type: ignore[attr-defined]
    assert pool.num_connections == 1
    assert pool.num_requests == 3


def test_cookies_of_a_balancer_are_sent_back(site: Site, session: PlainSession) -> None:
    for path in ("/cookie", "/v1/one", "/v1/two"):
        call(session, site.url + path)
    assert [headers.get("cookie") for *_, headers, _ in site.asked] == [None, "replica=2", "replica=2"]


def test_a_redirect_is_not_followed_unless_it_is_to_be(site: Site, session: PlainSession) -> None:
    """The token in the header would go along."""
    assert call(session, site.url + "/redirect").status_code == 307
    assert len(site.asked) == 1
    assert call(session, site.url + "/redirect", allow_redirects=True).status_code == 200
    assert [path for _, path, *_ in site.asked[1:]] == ["/redirect", "/elsewhere"]
    call(session, site.url + "/cookie")  # from here on, requests goes its own way
    assert call(session, site.url + "/redirect").status_code == 307


def test_a_body_that_is_cut_short_is_an_error_of_the_call(site: Site, session: PlainSession) -> None:
    for each in (session, requests.Session()):
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            call(each, site.url + "/cut-short")


def test_a_call_ends_with_its_time_out(session: PlainSession) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hangs_up = threading.Timer(5, silent.shutdown, (socket.SHUT_RDWR,))
        hangs_up.start()
        with pytest.raises(requests.exceptions.ReadTimeout):
            call(session, f"http://127.0.0.1:{silent.getsockname()[1]}/v1", timeout=0.2)
        hangs_up.cancel()


def test_each_server_is_asked_itself(site: Site, session: PlainSession) -> None:
    with echo_site(pytest.MonkeyPatch()) as other:
        for each in (site, other):
            call(session, each.url + "/v1")
    assert len(site.asked) == len(other.asked) == 1


def test_hooks_see_each_answer_and_may_put_another_in_its_place(site: Site, session: PlainSession) -> None:
    seen: list[str] = []
    session.hooks["response"].append(lambda answer, **_: seen.append(answer.request.path_url))
    call(session, site.url + "/v1/one")
    other = requests.Response()
    other._content = b"other"
    session.hooks["response"].append(lambda answer, **_: other)
    assert call(session, site.url + "/v1/two") is other
    assert seen == ["/v1/one", "/v1/two"]


def test_a_proxy_of_the_environment_is_used_only_where_that_is_wanted(
    site: Site, session: PlainSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", site.url)
    assert call(session, "http://openbao.test/v1/sys/health").ok
    assert site.asked[0][1] == "http://openbao.test/v1/sys/health"
    monkeypatch.setenv("NO_PROXY", "openbao.test")
    with pytest.raises(requests.ConnectionError):
        call(session, "http://openbao.test/v1/sys/health")
    monkeypatch.delenv("NO_PROXY")
    session.trust_env = False
    with pytest.raises(requests.ConnectionError):
        call(session, "http://openbao.test/v1/sys/health")
    session.proxies = {"http": site.url}
    assert call(session, "http://openbao.test/v1/sys/health").ok
    assert len(site.asked) == 2


def test_certificates_are_those_of_the_environment_only_where_that_is_wanted(
    session: PlainSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[Any] = []

    class Adapter(requests.adapters.HTTPAdapter):
        def send(self, *_: Any, verify: Any = None, cert: Any = None, **__: Any) -> requests.Response:
            given.append((verify, cert))
            return requests.Response()

    session.mount("https://", Adapter())
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/of/the/environment.pem")
    call(session, "https://openbao.test/v1")
    session.verify, session.cert = "/of/the/session.pem", "/client.pem"
    session.trust_env = False
    call(session, "https://openbao.test/v1")
    call(session, "https://openbao.test/v1", verify="/of/the/call.pem")
    assert given == [
        ("/of/the/environment.pem", None),
        ("/of/the/session.pem", "/client.pem"),
        ("/of/the/call.pem", "/client.pem"),
    ]


def test_what_else_there_is_to_a_request_goes_its_usual_way(site: Site, session: PlainSession) -> None:
    call(session, site.url + "/v1", params={"list": "true"})
    call(session, site.url + "/v1", json=None, data={"a": "b"})
    session.auth = ("user", "word")
    call(session, site.url + "/v1")
    assert site.asked[0][1] == "/v1?list=true"
    assert site.asked[1][3] == b"a=b"
    assert site.asked[2][2]["authorization"].startswith("Basic ")


def test_a_login_in_a_file_is_not_sent(
    site: Site, session: PlainSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    call(session, site.url + "/v1")
    assert "authorization" not in site.asked[0][2]


def test_every_client_of_labkit_has_one(site: Site) -> None:
    client = Server(site.url, "s.root").client("ns")
    assert client.adapter.post("/v1/transit/encrypt/key", json={}) == {"data": {}}
    _, path, headers, _ = site.asked[0]
    assert (path, headers["x-vault-namespace"]) == ("/v1/transit/encrypt/key", "ns")
    assert isinstance(client.adapter.session, PlainSession)
