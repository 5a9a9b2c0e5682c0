"""What the official suite leaves out, over HTTP and for each codec: time, people, arguments, once, and every byte."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import hvac
import hvac.exceptions
import pytest
from mcp import Client
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from mcp.server.request_state import InvalidRequestState, RequestStateSecurity
from server import build
from serving import http, serving
from starlette.middleware.authentication import AuthenticationMiddleware

from labkit import attacks, replicas
from labkit.attacks import Question, text_of
from labkit.bucket import Bucket
from labkit.checks import expect_refusal
from labkit.janitor import build_janitor
from labkit.lab import Lab
from labkit.provision import TRANSIT_KEY
from labkit.single_use import SingleUse
from labkit.wire import over_http

pytestmark = pytest.mark.anyio
TTL = 120
LOGS = ["logs/1", "logs/2", "logs/3"]
PURGED = "Purged 3 object(s): logs/1, …"


@pytest.fixture(params=replicas.ROLES)
def codec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(lab: Lab, bucket: Bucket, codec: str) -> Iterator[str]:
    with serving(http(replicas.replica(lab, bucket, codec, ttl=TTL))) as url:
        yield url


@contextmanager
def intact(bucket: Bucket) -> Iterator[None]:
    before = bucket.keys()
    assert before[:3] == LOGS
    yield
    assert bucket.keys() == before


async def confirmed(client: Client, question: Question) -> str:
    """What the tool says to an honest yes."""
    return text_of(await attacks.confirm(client, question))


async def test_each_test_is_run_with_the_codec_that_it_is_named_after(
    url: str, lab: Lab, bucket: Bucket, codec: str, request: pytest.FixtureRequest, sealed_by: Callable[[str], str]
) -> None:
    with serving(http(replicas.replica(lab, bucket, codec, ttl=TTL))) as another:  # as tests do that make their own
        for where in (url, another):
            async with over_http(where) as (client, _):
                state = (await attacks.ask(client, "logs/")).state
            assert request.node.name.endswith(f"[{sealed_by(state)}]")


async def test_a_state_that_is_too_old_is_refused(url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    async with over_http(url) as (client, _):
        question = await attacks.ask(client, "logs/")
        with monkeypatch.context() as later:
            # The boundary's clock and not that of OpenBao, where the claim stays good: only the state is too old.
            later.setattr("mcp.server.request_state.time", SimpleNamespace(time=lambda: time.time() + TTL))
            with intact(bucket), expect_refusal("expired"):
                await attacks.confirm(client, question)
        assert await confirmed(client, question) == PURGED


class Users:
    """Knows everybody, by a token that is their name."""

    async def verify_token(self, token: str) -> AccessToken:
        return AccessToken(token=token, client_id="one-app", subject=token, scopes=[])


async def test_a_state_of_somebody_else_is_refused(lab: Lab, bucket: Bucket, codec: str) -> None:
    app = http(replicas.replica(lab, bucket, codec, ttl=TTL))
    with serving(AuthenticationMiddleware(AuthContextMiddleware(app), BearerAuthBackend(Users()))) as url:
        async with over_http(url, bearer="alice") as (alice, _), over_http(url, bearer="mallory") as (mallory, _):
            question = await attacks.ask(alice, "logs/")
            with intact(bucket), expect_refusal("principal"):
                await attacks.confirm(mallory, question)
            async with over_http(url) as (nobody, _):
                with intact(bucket), expect_refusal("principal drift"):
                    await attacks.confirm(nobody, question)
            assert await confirmed(alice, question) == PURGED


async def test_a_state_for_other_arguments_is_refused(url: str, bucket: Bucket) -> None:
    async with over_http(url) as (client, _):
        question = await attacks.ask(client, "logs/")
        with intact(bucket), expect_refusal("request binding"):
            await attacks.swap_arguments(client, question, "secrets/")
        assert await confirmed(client, question) == PURGED


async def test_a_state_that_was_used_is_refused(url: str, bucket: Bucket) -> None:
    async with over_http(url) as (client, _):
        question = await attacks.ask(client, "logs/")
        assert await confirmed(client, question) == PURGED
        assert bucket.keys() == ["secrets/root.key"]
        for key in LOGS:
            bucket.put(key)
        with intact(bucket), expect_refusal("already redeemed") as refusal:
            refusal.saw(await attacks.replay(client, question))


def with_other_unused_bits(state: str) -> str:
    """The same bytes in another spelling: base64 drops bits of the last character."""
    body = state.rstrip("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + ("+/" if "=" in state else "-_")
    last = alphabet[alphabet.index(body[-1]) ^ 1]
    altered = body[:-1] + last + "=" * (len(state) - len(body))
    assert _bytes(altered) == _bytes(state)
    return altered


def _bytes(state: str) -> bytes:
    body = state[state.rindex(":" if ":" in state else ".") + 1 :].rstrip("=").replace("+", "-").replace("/", "_")
    return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))


def has_unused_bits(state: str) -> bool:
    return len(_bytes(state)) % 3 != 0


async def ask_for_unused_bits(client: Client, monkeypatch: pytest.MonkeyPatch) -> Question:
    """Play round 1 at a time that is written so that the state's last character has bits to spare."""
    for fraction in (0.5, 0.25):  # `iat` and `exp` differ by a digit each: of two lengths, one leaves bits unused
        now = int(time.time()) + fraction
        with monkeypatch.context() as frozen:
            frozen.setattr("mcp.server.request_state.time", SimpleNamespace(time=lambda now=now: now))
            question = await attacks.ask(client, "logs/")
        if has_unused_bits(question.state):
            return question
    raise AssertionError("neither length leaves bits unused")


ALTERATIONS: dict[str, Callable[[str], str]] = {
    "newline": lambda state: state + "\n",
    "CRLF": lambda state: state + "\r\n",
    "space": lambda state: state + " ",
    "padding": lambda state: state + "=",
    "unused bits": with_other_unused_bits,
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
async def test_any_other_spelling_of_a_state_is_refused(
    url: str, bucket: Bucket, alteration: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with over_http(url) as (client, _):
        question = await ask_for_unused_bits(client, monkeypatch)
        altered = Question(question.prefix, ALTERATIONS[alteration](question.state))
        with intact(bucket), expect_refusal("malformed"):
            await attacks.confirm(client, altered)
        assert await confirmed(client, question) == PURGED


class TenLines:
    """The codec that anybody would write first: it looks at the prefix, and leaves the rest to Transit."""

    def __init__(self, client: hvac.Client) -> None:
        self.transit = client.secrets.transit

    def seal(self, payload: bytes) -> str:
        return str(self.transit.encrypt_data(TRANSIT_KEY, base64.b64encode(payload).decode())["data"]["ciphertext"])

    def unseal(self, token: str) -> bytes:
        if not token.startswith("vault:"):
            raise InvalidRequestState("malformed")
        try:
            return base64.b64decode(self.transit.decrypt_data(TRANSIT_KEY, token)["data"]["plaintext"])
        except hvac.exceptions.InvalidRequest:
            raise InvalidRequestState("seal") from None


@pytest.fixture
def ten_lines(lab: Lab) -> RequestStateSecurity:
    return RequestStateSecurity(codec=TenLines(lab.client("transit")), ttl=TTL)


@pytest.mark.parametrize("alteration", ["newline", "CRLF", "unused bits"])
async def test_a_codec_that_is_not_strict_accepts_them(
    lab: Lab, bucket: Bucket, ten_lines: RequestStateSecurity, alteration: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    janitor = build_janitor(ten_lines, SingleUse(lab.client("confirmations"), ttl=TTL), bucket)
    with serving(http(janitor)) as url:
        async with over_http(url) as (client, _):
            question = await ask_for_unused_bits(client, monkeypatch)
            altered = Question(question.prefix, ALTERATIONS[alteration](question.state))
            assert await confirmed(client, altered) == PURGED
    assert bucket.keys() == ["secrets/root.key"]


def test_the_official_suite_does_not_tell_such_a_codec(ten_lines: RequestStateSecurity, suite: Any) -> None:
    with serving(http(build(ten_lines))) as url:
        status, checks = suite(url, "input-required-result-tampered-state")
    assert status == 0
    assert {check["status"] for check in checks} == {"SUCCESS"}
