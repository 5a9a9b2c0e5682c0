"""A plan is redeemed at most once, whatever races, fails or lies in between."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hvac
import hvac.exceptions
import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from on_disk import OnDisk

import labkit
from labkit import single_use
from labkit.lab import Lab
from labkit.openbao import Server
from labkit.single_use import AlreadyRedeemed, PlanTooLarge, SingleUse, WrongPlan

PLAN = {"tool": "purge_objects", "keys": ["logs/1"]}
on_a_server = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
plans = st.dictionaries(
    st.text(max_size=10),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=30),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


@pytest.fixture
def claims(lab: Lab) -> SingleUse:
    return SingleUse(lab.client("confirmations"))


@given(plans)
@on_a_server
def test_a_plan_comes_back_as_it_was_parked_and_only_once(claims: SingleUse, plan: dict[str, Any]) -> None:
    claim = claims.issue(plan)
    assert claims.redeem(claim) == plan
    with pytest.raises(AlreadyRedeemed):
        claims.redeem(claim)


def test_a_burned_claim_redeems_nothing_and_burning_reveals_nothing(claims: SingleUse) -> None:
    claim = claims.issue(PLAN)
    assert claims.burn(claim) is None
    with pytest.raises(AlreadyRedeemed):
        claims.redeem(claim)
    with pytest.raises(AlreadyRedeemed):
        claims.burn(claim)


def test_an_expired_claim_redeems_and_burns_nothing(lab: Lab) -> None:
    claims = SingleUse(lab.client("confirmations"), ttl=1)
    claim = claims.issue(PLAN)
    deadline = time.monotonic() + 30
    lookup = {"json": {"token": claim}, "raise_exception": False}
    while isinstance(lab.admin.adapter.post("/v1/sys/wrapping/lookup", **lookup), dict):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(AlreadyRedeemed):
        claims.redeem(claim)
    with pytest.raises(AlreadyRedeemed):
        claims.burn(claim)


@given(st.text(max_size=60) | st.binary(max_size=30).map(lambda b: f"s.{b.hex()}"))
@on_a_server
def test_a_claim_that_was_never_issued_is_turned_down(claims: SingleUse, claim: str) -> None:
    for attempt in (claims.redeem, claims.burn):
        with pytest.raises(AlreadyRedeemed):
            attempt(claim)


def test_a_token_that_is_no_claim_is_not_a_redemption(lab: Lab, claims: SingleUse) -> None:
    token = lab.admin.auth.token.create(policies=["default"])["auth"]["client_token"]
    with pytest.raises(AlreadyRedeemed):
        claims.redeem(token)


@pytest.mark.parametrize("data", [{"plan": "no json"}, {"plan": "[1]"}, {"plan": 7}, {"plan": None}, {"other": "{}"}])
def test_what_somebody_else_wrapped_is_no_plan(lab: Lab, claims: SingleUse, data: dict[str, Any]) -> None:
    answer = lab.client("mcp-server").adapter.post("/v1/sys/wrapping/wrap", json=data, wrap_ttl="60s")
    with pytest.raises(WrongPlan):
        claims.redeem(answer["wrap_info"]["token"])


def test_redeeming_needs_no_living_token_of_ours(own_lab: Lab) -> None:
    client = own_lab.client("confirmations")
    claims = SingleUse(client)
    claim = claims.issue(PLAN)
    own_lab.admin.auth.token.revoke(client.token)
    assert claims.redeem(claim) == PLAN


def test_ten_thousand_keys_are_parked_as_one_string(claims: SingleUse) -> None:
    plan = {"keys": [f"logs/{number:05}" for number in range(10_000)]}
    assert claims.redeem(claims.issue(plan)) == plan


def test_a_structure_of_that_many_strings_is_what_openbao_refuses(lab: Lab) -> None:
    """Why a plan is one string."""
    with pytest.raises(hvac.exceptions.InvalidRequest, match="high complexity"):
        lab.client("confirmations").adapter.post(
            "/v1/sys/wrapping/wrap", json={"keys": [str(n) for n in range(1000)]}, wrap_ttl="60s"
        )


def test_a_plan_that_is_too_large_is_one_sentence(claims: SingleUse) -> None:
    with pytest.raises(PlanTooLarge, match=r"bytes in OpenBao, more than 1,000,000: make it smaller"):
        claims.issue({"keys": ["x" * 1_100_000]})


def test_the_role_that_issues_may_do_no_more_than_that(lab: Lab) -> None:
    client = lab.client("confirmations")
    claim = SingleUse(client).issue(PLAN)
    for path in ("sys/wrapping/unwrap", "sys/wrapping/rewrap", "auth/token/revoke"):
        with pytest.raises(hvac.exceptions.Forbidden):
            client.adapter.post(f"/v1/{path}", json={"token": claim})


def test_a_client_that_may_not_wrap_is_an_outage_in_one_sentence(lab: Lab) -> None:
    with pytest.raises(labkit.OpenBaoUnavailable, match="refused our token while parking a plan"):
        SingleUse(lab.client("ring-reader")).issue(PLAN)


def test_of_eight_racing_redeemers_exactly_one_gets_the_plan(
    lab: Lab, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """300 claims, 8 redeemers each, all let go at once. What the losers are told varies; they never win."""
    statuses: collections.Counter[int] = collections.Counter()
    client = lab.client("confirmations")
    lock = threading.Lock()

    def count(answer: requests.Response, *_: object, **__: object) -> None:
        if "unwrap" in str(answer.url):
            with lock:
                statuses[answer.status_code] += 1

    client.adapter.session.hooks["response"].append(count)
    claims = SingleUse(client)
    start = threading.Barrier(8)

    def redeem(claim: str) -> object:
        start.wait()
        try:
            return claims.redeem(claim)
        except AlreadyRedeemed:
            return None

    with ThreadPoolExecutor(8) as pool:
        for number in range(300):
            plan = {"number": number}
            claim = claims.issue(plan)
            outcomes = [outcome for outcome in pool.map(redeem, [claim] * 8) if outcome is not None]
            assert outcomes == [plan], f"claim {number} was redeemed {len(outcomes)} times"
    assert statuses[200] == 300
    assert set(statuses) <= {200, 204, 400, 500}
    assert sum(statuses.values()) >= 2400
    record_testsuite_property("race statuses", dict(sorted(statuses.items())))
    print(f"\n300 claims x 8 redeemers: 300 payloads; statuses {dict(sorted(statuses.items()))}")


def pid_of(lab: Lab) -> int:
    return lab._server._child.process.pid


def test_a_dead_server_leaves_the_claim_as_it_was_and_says_so(own_lab: Lab) -> None:
    claims = SingleUse(own_lab.client("confirmations"))
    claim = claims.issue(PLAN)
    os.kill(pid_of(own_lab), signal.SIGKILL)
    own_lab._server._child.process.wait()
    for attempt in (claims.redeem, claims.burn):
        with pytest.raises(labkit.OpenBaoUnavailable, match="may still be valid") as caught:
            attempt(claim)
        assert claim not in str(caught.value)
    with pytest.raises(labkit.OpenBaoUnavailable, match="unreachable while parking a plan"):
        claims.issue(PLAN)


def test_a_claim_is_not_kept_in_the_errors_behind_an_outage(own_lab: Lab) -> None:
    """A program that collects errors walks along them, whatever a traceback shows."""
    claims = SingleUse(own_lab.client("confirmations"))
    claim = claims.issue(PLAN)
    own_lab._server.close()
    for attempt in (claims.redeem, claims.burn):
        with pytest.raises(labkit.OpenBaoUnavailable) as caught:
            attempt(claim)
        error: BaseException | None = caught.value
        while error is not None:
            for holder in (getattr(error, "request", None), getattr(error, "response", None)):
                assert claim not in str(vars(holder) if holder is not None else "")
            error = error.__context__


def test_a_sealed_server_leaves_the_claim_as_it_was_and_says_so(own_lab: Lab) -> None:
    claims = SingleUse(own_lab.client("confirmations"))
    claim = claims.issue(PLAN)
    own_lab._server.client("", token=own_lab._server.token).sys.seal()
    for attempt in (claims.redeem, claims.burn):
        with pytest.raises(labkit.OpenBaoUnavailable, match=r"\(status 503\); the confirmation may still be valid"):
            attempt(claim)


def test_a_certificate_file_that_is_missing_leaves_the_claim_as_it_was_and_says_so() -> None:
    claims = SingleUse(Server("https://127.0.0.1:1", "", verify="/no/such/file.pem").client(""))
    for attempt in (claims.redeem, claims.burn):
        with pytest.raises(labkit.OpenBaoUnavailable, match="may still be valid"):
            attempt("s.claim")


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
            time.sleep(0.01)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_time_out_after_sending_says_that_it_cannot_know(own_lab: Lab) -> None:
    client = own_lab.client("confirmations")
    claims = SingleUse(client)
    claim = claims.issue(PLAN)
    client.adapter._kwargs["timeout"] = 0.3
    with (
        stopped(pid_of(own_lab)),
        pytest.raises(labkit.OpenBaoUnavailable, match=r"\(ReadTimeout\); whether .* cannot be known"),
    ):
        claims.redeem(claim)


@contextlib.contextmanager
def answering(lines: list[bytes], claim_port: list[int]) -> Iterator[None]:
    """A peer that answers each connection with the next of `lines`, byte for byte, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        claim_port.append(server.getsockname()[1])

        def serve() -> None:
            for line in lines:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(line)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(timeout=10)
        assert not thread.is_alive(), "not every answer was asked for"


def http(status: int, body: str = "", kind: str = "application/json", more: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


def bao(status: int, said: str) -> bytes:
    return http(status, json.dumps({"errors": [said]}))


PAYLOAD = json.dumps({"data": {"plan": json.dumps(PLAN)}})
DEAD = bao(400, "wrapping token is not valid or does not exist")
PAGE = "<html>Please sign in.</html>"
CANNOT_KNOW = "cannot be known"
MAY_BE_VALID = "may still be valid"


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([http(204), DEAD], AlreadyRedeemed),
        ([bao(500, "internal error"), DEAD], AlreadyRedeemed),
        ([http(204), http(200, PAYLOAD)], PLAN),
        ([bao(500, "internal error"), http(200, PAYLOAD)], PLAN),
        ([http(204), http(204)], CANNOT_KNOW),
        ([bao(500, "internal error"), http(204)], CANNOT_KNOW),
        ([http(204), bao(500, "internal error")], CANNOT_KNOW),
        ([bao(500, "internal error"), bao(403, "permission denied")], CANNOT_KNOW),
        ([bao(500, "internal error"), b""], CANNOT_KNOW),
        ([bao(500, "internal error"), http(400, PAGE, "text/html")], CANNOT_KNOW),
        ([bao(500, "internal error"), bao(500, "internal error")], CANNOT_KNOW),
        ([bao(500, "internal error"), bao(503, "Vault is sealed")], CANNOT_KNOW),
        ([http(204), http(400, PAGE, "text/html")], CANNOT_KNOW),
        ([http(204), b""], CANNOT_KNOW),
        ([http(200, '{"data": {}}')], WrongPlan),
        ([http(200, '{"data": {"plan": "' + "[" * 9000 + '"}}')], WrongPlan),
        ([http(200, "{}")], CANNOT_KNOW),
        ([http(200, "")], CANNOT_KNOW),
        ([http(200, PAGE, "text/html")], CANNOT_KNOW),
        ([DEAD], AlreadyRedeemed),
        ([http(400, PAGE, "text/html")], CANNOT_KNOW),
        ([bao(403, "permission denied")], CANNOT_KNOW),
        ([bao(429, "rate limited")], MAY_BE_VALID),
        ([bao(503, "Vault is sealed")], MAY_BE_VALID),
        ([http(503, PAGE, "text/html")], CANNOT_KNOW),
        ([http(502)], CANNOT_KNOW),
        ([http(504)], CANNOT_KNOW),
        ([http(302, more="Location: http://127.0.0.1:1/login\r\n")], CANNOT_KNOW),
        ([b""], CANNOT_KNOW),
        ([b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n{"], CANNOT_KNOW),
    ],
)
def test_each_answer_that_a_race_or_a_proxy_can_give(lab: Lab, answers: list[bytes], outcome: object) -> None:
    """Answers that OpenBao, or a proxy before it, gives too rarely to wait for: sent over a real socket."""
    port: list[int] = []
    with answering(answers, port):
        claims = SingleUse(hvac.Client(f"http://127.0.0.1:{port[0]}", token=""))
        if isinstance(outcome, dict):
            assert claims.redeem("s.claim") == outcome
        elif isinstance(outcome, str):
            with pytest.raises(labkit.OpenBaoUnavailable, match=outcome):
                claims.redeem("s.claim")
        else:
            with pytest.raises(outcome):  # type: ignore[call-overload]
                claims.redeem("s.claim")


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([http(204)], None),
        ([bao(403, "permission denied")], AlreadyRedeemed),
        ([http(403, PAGE, "text/html")], CANNOT_KNOW),
        ([http(400, PAGE, "text/html")], CANNOT_KNOW),
        ([http(200, PAGE, "text/html")], CANNOT_KNOW),
        ([http(302, more="Location: http://127.0.0.1:1/login\r\n")], CANNOT_KNOW),
        ([bao(503, "Vault is sealed")], MAY_BE_VALID),
        ([bao(500, "internal error"), http(204)], None),
        ([bao(500, "internal error"), bao(403, "permission denied")], AlreadyRedeemed),
        ([bao(500, "internal error"), http(403, PAGE, "text/html")], CANNOT_KNOW),
        ([bao(500, "internal error"), bao(500, "internal error")], CANNOT_KNOW),
        ([bao(500, "internal error"), bao(503, "Vault is sealed")], CANNOT_KNOW),
        ([bao(500, "internal error"), bao(400, "missing client token")], CANNOT_KNOW),
        ([bao(500, "internal error"), http(200, PAYLOAD)], CANNOT_KNOW),
        ([bao(500, "internal error"), b""], CANNOT_KNOW),
    ],
)
def test_each_answer_to_burning_a_claim(answers: list[bytes], outcome: object) -> None:
    """Nothing but OpenBao's own word makes a claim burned, or dead."""
    port: list[int] = []
    with answering(answers, port):
        claims = SingleUse(hvac.Client(f"http://127.0.0.1:{port[0]}", token=""))
        if outcome is None:
            claims.burn("s.claim")
        elif isinstance(outcome, str):
            with pytest.raises(labkit.OpenBaoUnavailable, match=outcome):
                claims.burn("s.claim")
        else:
            with pytest.raises(outcome):  # type: ignore[call-overload]
                claims.burn("s.claim")


@pytest.mark.parametrize("attempt", [SingleUse.redeem, SingleUse.burn])
def test_a_server_that_is_gone_after_a_500_leaves_nobody_to_believe_that_the_claim_is_good(
    attempt: Callable[[SingleUse, str], object],
) -> None:
    """The second request finds nobody there; but the first one may have consumed the claim."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_and_go() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                server.close()
                connection.sendall(bao(500, "internal error"))

        thread = threading.Thread(target=answer_and_go, daemon=True)
        thread.start()
        claims = SingleUse(hvac.Client(f"http://127.0.0.1:{server.getsockname()[1]}", token=""))
        with pytest.raises(labkit.OpenBaoUnavailable, match=rf"\(status 500\); .*{CANNOT_KNOW}"):
            attempt(claims, "s.claim")
        thread.join(timeout=10)


@pytest.mark.parametrize(
    ("attempt", "answers", "told"),
    [
        (SingleUse.redeem, [bao(500, "internal error"), DEAD], True),
        (SingleUse.burn, [bao(500, "internal error"), bao(403, "permission denied")], True),
        (SingleUse.redeem, [http(204), DEAD], False),
        (SingleUse.redeem, [DEAD], False),
        (SingleUse.redeem, [bao(500, "internal error"), http(200, PAYLOAD)], False),
        (SingleUse.burn, [bao(500, "internal error"), http(204)], False),
        (SingleUse.burn, [bao(403, "permission denied")], False),
    ],
)
def test_whoever_operates_it_is_told_of_a_claim_that_is_gone_after_a_500(
    attempt: Callable[[SingleUse, str], object],
    answers: list[bytes],
    told: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port: list[int] = []
    with answering(answers, port), contextlib.suppress(AlreadyRedeemed):
        attempt(SingleUse(hvac.Client(f"http://127.0.0.1:{port[0]}", token="")), "s.claim")
    logged = [record.getMessage() for record in caplog.records if record.name == "labkit.single_use"]
    assert logged == ["a claim is gone after OpenBao failed with 500 while consuming it"] * told
    assert "s.claim" not in caplog.text


@pytest.mark.parametrize("ttl", [0, 301, -1, 0.5, 120.0, "120", None, True])
def test_a_lifetime_that_no_claim_can_have_is_turned_down(ttl: Any) -> None:
    with pytest.raises(ValueError, match=r"a claim lives 1 to 300 whole seconds, not"):
        SingleUse(hvac.Client(token=""), ttl=ttl)


@pytest.mark.parametrize(
    "page", [http(200, PAGE, "text/html"), http(204), http(200, "{}"), http(502, PAGE, "text/html")]
)
@pytest.mark.parametrize(
    ("doing", "ask"),
    [
        ("parking a plan", lambda client: SingleUse(client).issue(PLAN)),
        ("sealing with", lambda client: labkit.TransitCodec(client).seal(b"state")),
        ("reading the key ring", labkit.load_key_ring),
    ],
)
def test_an_answer_that_is_none_is_an_outage(page: bytes, doing: str, ask: Callable[[hvac.Client], object]) -> None:
    port: list[int] = []
    with answering([page], port):
        client = Server(f"http://127.0.0.1:{port[0]}", "").client("")
        with pytest.raises(labkit.OpenBaoUnavailable, match=f"while {doing}"):
            ask(client)


@pytest.mark.parametrize("ask", [lambda client: SingleUse(client).issue(PLAN), labkit.load_key_ring])
@pytest.mark.parametrize("part", [{"a": 1}, [1], "a"])
def test_an_answer_with_a_part_of_another_shape_is_an_outage(
    part: object, ask: Callable[[hvac.Client], object]
) -> None:
    port: list[int] = []
    with answering([http(200, json.dumps({"data": part, "wrap_info": part}))], port):
        client = Server(f"http://127.0.0.1:{port[0]}", "").client("")
        with pytest.raises(labkit.OpenBaoUnavailable, match="Nothing that can be read as OpenBao's answer"):
            ask(client)


def test_a_namespace_that_is_gone_is_an_outage_when_a_plan_is_parked() -> None:
    port: list[int] = []
    with answering([http(404, '{"errors": []}')], port):
        client = Server(f"http://127.0.0.1:{port[0]}", "").client("")
        with pytest.raises(labkit.OpenBaoUnavailable, match="while parking a plan"):
            SingleUse(client).issue(PLAN)


@pytest.fixture(scope="module")
def raft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hvac.Client]:
    """An OpenBao on raft, the storage with the smallest entries: a client with its root token."""
    bao = OnDisk(tmp_path_factory.mktemp("openbao"))
    yield hvac.Client(bao.address, token=bao.token)
    bao.kill()


@pytest.mark.parametrize("character", ["x", '"', "\\", "<", "&", "é", "𝄞", "\n", "\u2028"])
def test_the_largest_plan_that_is_issued_fits_the_strictest_storage(raft: hvac.Client, character: str) -> None:
    claims = SingleUse(raft)
    low, high = 0, 1_000_000
    while low < high:  # the longest value that our own limit lets pass
        middle = (low + high + 1) // 2
        fits = single_use._stored_size(json.dumps({"keys": [character * middle]})) <= single_use._PLAN_LIMIT
        low, high = (middle, high) if fits else (low, middle - 1)
    plan = {"keys": [character * low]}
    assert claims.redeem(claims.issue(plan)) == plan
    with pytest.raises(PlanTooLarge):
        claims.issue({"keys": [character * (low + 1)]})


def test_a_claim_never_shows_in_a_message(own_lab: Lab) -> None:
    claims = SingleUse(own_lab.client("confirmations"))
    claim = claims.issue({"note": secrets.token_hex(8)})
    claims.redeem(claim)
    with pytest.raises(AlreadyRedeemed) as caught:
        claims.redeem(claim)
    assert claim not in str(caught.value)
    assert claim not in repr(claims)
