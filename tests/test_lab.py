"""A lab is a fresh namespace on a real OpenBao, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import hvac.exceptions
import pytest
import requests
from mcp.server.request_state import InvalidRequestState
from waiting import eventually

import labkit
from labkit import approle, openbao, provision
from labkit.lab import Lab

if TYPE_CHECKING:
    from conftest import Kernel

READ, UPDATE = ["read"], ["update"]
TARGETS: dict[str, dict[str, list[str]]] = {
    "ring-reader": {"secret/data/mcp/request-state-keys": READ},
    "envelope-reader": {
        "secret/data/mcp/request-state-envelope": READ,
        "transit/decrypt/mcp-request-state-envelope": UPDATE,
    },
    "transit": {"transit/encrypt/mcp-request-state": UPDATE, "transit/decrypt/mcp-request-state": UPDATE},
    "confirmations": {"sys/wrapping/wrap": UPDATE},
    "mcp-server": {
        "secret/data/mcp/request-state-keys": READ,
        "transit/encrypt/mcp-request-state": UPDATE,
        "transit/decrypt/mcp-request-state": UPDATE,
        "sys/wrapping/wrap": UPDATE,
        "sys/wrapping/unwrap": UPDATE,
    },
    "ring-operator": {
        "secret/data/mcp/request-state-keys": READ + UPDATE,
        "secret/metadata/mcp/request-state-keys": READ,
        "secret/destroy/mcp/request-state-keys": UPDATE,
        "transit/keys/mcp-request-state": READ,
        "transit/keys/mcp-request-state/rotate": UPDATE,
        "transit/keys/mcp-request-state/config": UPDATE,
    },
    "ledger": {
        "secret/data/mcp/operations/+": ["create", *READ, *UPDATE],
        "secret/metadata/mcp/operations/": ["list"],
        "secret/metadata/mcp/operations/+": ["delete"],
    },
}
"""What each role may do, and at which path; besides, each may look up its own token."""


def namespaces(lab: Lab) -> list[str]:
    """The namespaces at the root of the lab's server."""
    root = lab._server.client("", token=lab._server.token)
    return list(root.adapter.request("list", "/v1/sys/namespaces")["data"]["keys"])


def answers(address: str) -> bool:
    try:
        return requests.get(f"{address}/v1/sys/health", timeout=2).ok
    except requests.RequestException:
        return False


def test_every_role_is_a_policy_file_and_has_just_its_own_policy(lab: Lab) -> None:
    assert set(provision.roles()) == set(TARGETS)
    for role in TARGETS:
        token = lab.client(role).auth.token.lookup_self()["data"]
        assert token["policies"] == [role], "the default policy would grant wrapping, unwrapping and more"
        assert token["ttl"] <= provision.TOKEN_TTL


@pytest.mark.parametrize("role", TARGETS)
def test_a_role_may_do_what_its_policy_names_and_nothing_else(lab: Lab, role: str) -> None:
    paths = {path for targets in TARGETS.values() for path in targets}
    paths |= {"transit/export/encryption-key/mcp-request-state", "transit/backup/mcp-request-state", "sys/mounts"}
    paths |= {"secret/undelete/mcp/request-state-keys", "cubbyhole/x", "auth/token/create", "sys/policies/acl/x"}
    # sys/capabilities-self is not granted, so the one who provisioned asks on the role's behalf.
    token = lab.client(role).token
    answer = lab.admin.adapter.post("/v1/sys/capabilities", json={"token": token, "paths": sorted(paths)})
    assert {path: answer["data"][path] for path in paths if answer["data"][path] != ["deny"]} == TARGETS[role]


def test_the_transit_role_cannot_make_the_key_that_it_lacks(lab: Lab) -> None:
    client = lab.client("transit")
    with pytest.raises(hvac.exceptions.Forbidden):
        client.secrets.transit.encrypt_data("another-key", "")


def test_a_claim_cannot_be_given_more_than_five_minutes(lab: Lab) -> None:
    client = lab.client("confirmations")
    assert client.adapter.post("/v1/sys/wrapping/wrap", json={"a": "b"}, wrap_ttl="300s")["wrap_info"]["ttl"] == 300
    with pytest.raises(hvac.exceptions.Forbidden):
        client.adapter.post("/v1/sys/wrapping/wrap", json={"a": "b"}, wrap_ttl="301s")


def test_a_client_logs_in_again_when_its_token_has_expired(no_settings: None) -> None:
    with Lab(openbao.find_or_start(), token_ttl=1) as lab:
        client = lab.client("ring-reader")
        first = client.token

        def expired() -> bool:
            try:
                lab.admin.auth.token.lookup(first)
            except hvac.exceptions.Forbidden:
                return True
            return False

        eventually(expired, "the first token expires")
        assert labkit.load_key_ring(client)
        assert client.token != first


def test_a_client_logs_in_again_when_its_token_was_revoked(own_lab: Lab) -> None:
    client = own_lab.client("transit")
    first = client.token
    own_lab.admin.auth.token.revoke(first)
    assert labkit.TransitCodec(client).seal(b"state")
    assert client.token != first


def test_a_denied_request_is_no_reason_to_log_in_again(own_lab: Lab) -> None:
    client = own_lab.client("transit")
    first = client.token
    with pytest.raises(hvac.exceptions.Forbidden):
        client.secrets.kv.v2.read_secret_version(provision.RING_PATH, raise_on_deleted_version=True)
    assert client.token == first


def test_a_login_that_is_refused_is_one_sentence_without_the_secret_id(own_lab: Lab) -> None:
    client = own_lab.client("ring-reader")
    own_lab.admin.auth.approle.delete_role("ring-reader")
    own_lab.admin.auth.token.revoke(client.token)
    with pytest.raises(labkit.OpenBaoUnavailable, match=r"refused the AppRole login of ring-reader") as caught:
        labkit.load_key_ring(client)
    for value in client.adapter._credentials.values():  # type: ignore[attr-defined]
        assert value not in str(caught.value)


def test_a_login_that_others_have_locked_out_is_tried_again(own_lab: Lab) -> None:
    """Where lockout is on, that a role is locked out says nothing of this secret-id."""
    client, admin = own_lab.client("ring-reader"), own_lab.admin
    role_id, _ = provision.credentials(admin, "ring-reader")
    tuning = {"user_lockout_config": {"lockout_disable": False}}
    admin.adapter.post("/v1/sys/auth/approle/tune", json=tuning)
    for _ in range(6):
        with pytest.raises(labkit.OpenBaoUnavailable):
            approle.log_in(own_lab._server, own_lab.namespace, "ring-reader", role_id, "made-up")
    admin.auth.token.revoke(client.token)
    with pytest.raises(labkit.OpenBaoUnavailable, match="refused the AppRole login"):
        labkit.load_key_ring(client)
    accessor = admin.sys.list_auth_methods()["data"]["approle/"]["accessor"]
    admin.adapter.post(f"/v1/sys/locked-users/{accessor}/unlock/{role_id}")
    assert labkit.load_key_ring(client)


def test_two_labs_on_one_server_share_nothing(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab(openbao.find_or_start()) as host:
        monkeypatch.setenv("BAO_ADDR", host.address)
        monkeypatch.setenv("BAO_TOKEN", str(host.admin.token))
        with Lab(openbao.find_or_start()) as one, Lab(openbao.find_or_start()) as two:
            labkit.SingleUse(one.client("confirmations")).issue({"never": "redeemed"})
            assert len({host.namespace, one.namespace, two.namespace}) == 3
            rings = [labkit.load_key_ring(lab.client("ring-reader")) for lab in (one, two)]
            assert rings[0] != rings[1]
            token = labkit.TransitCodec(one.client("transit")).seal(b"state")
            with pytest.raises(InvalidRequestState):
                labkit.TransitCodec(two.client("transit")).unseal(token)
        assert answers(host.address), "somebody else's server is left running"
        left = [f"{host.namespace}/"]
        eventually(lambda: namespaces(host) == left, "what was made on a shared server is removed")


def test_a_process_that_ends_takes_its_namespace_along(own_lab: Lab) -> None:
    env = {**os.environ, "BAO_ADDR": own_lab.address, "BAO_TOKEN": str(own_lab.admin.token)}
    code = "import labkit; lab = labkit.start(); print(lab.namespace); labkit.load_key_ring(lab.client('ring-reader'))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.startswith("lab-"), done.stderr
    eventually(lambda: namespaces(own_lab) == [f"{own_lab.namespace}/"], "its namespace is removed")


def test_a_namespace_that_was_handed_out_is_enough(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instructor hands out a namespace and a token for it, instead of root."""
    with Lab(openbao.find_or_start()) as host:
        root = host._server.client("", token=host._server.token)
        root.write_data("sys/namespaces/team-7")
        team = host._server.client("team-7", token=host._server.token)
        team.sys.create_or_update_policy(
            "team-admin", 'path "*" { capabilities = ["create", "read", "update", "delete", "list", "sudo"] }'
        )
        token = team.auth.token.create(policies=["team-admin"])["auth"]["client_token"]
        monkeypatch.setenv("BAO_ADDR", host.address)
        monkeypatch.setenv("BAO_TOKEN", token)
        monkeypatch.setenv("BAO_NAMESPACE", "team-7")
        with Lab(openbao.find_or_start()) as lab:
            assert lab.namespace.startswith("team-7/lab-")
            assert labkit.load_key_ring(lab.client("ring-reader"))


def test_vault_settings_stand_in(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT_ADDR", own_lab.address)
    monkeypatch.setenv("VAULT_TOKEN", str(own_lab.admin.token))
    assert openbao.find_or_start().address == own_lab.address


def test_provisioning_twice_changes_nothing(own_lab: Lab) -> None:
    client = own_lab.client("ring-reader")
    ring, token = labkit.load_key_ring(client), labkit.TransitCodec(own_lab.client("transit")).seal(b"state")
    provision.provision(own_lab.admin)
    assert labkit.load_key_ring(client) == ring
    assert labkit.TransitCodec(own_lab.client("transit")).unseal(token) == b"state"


def test_after_provisioning_the_root_token_does_nothing(own_lab: Lab) -> None:
    before = len(own_lab.audit_records())
    bucket = labkit.Bucket()
    bucket.reset(["logs/1"])
    clients = [own_lab.client(role) for role in ("ring-reader", "transit", "confirmations")]
    labkit.load_key_ring(clients[0])
    labkit.TransitCodec(clients[1]).seal(b"state")
    single_use = labkit.SingleUse(clients[2])
    single_use.redeem(single_use.issue({}))
    records = own_lab.audit_records()[before:]
    by_root = {r["request"]["path"] for r in records if "root" in r.get("auth", {}).get("policies", [])}
    assert by_root <= {
        f"auth/approle/role/{role}/{what}"
        for role in ("ring-reader", "transit", "confirmations")
        for what in ("role-id", "secret-id")
    }
    assert any(r["request"]["path"] == "sys/wrapping/unwrap" for r in records), "the audit log was read"


def test_bao_addr_without_a_token_is_one_sentence(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAO_ADDR", "http://127.0.0.1:1")
    with pytest.raises(labkit.LabError, match=r"BAO_ADDR is http://127.0.0.1:1 but BAO_TOKEN is not set"):
        labkit.start()


def test_a_server_that_does_not_answer_is_one_sentence(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAO_ADDR", "http://127.0.0.1:1")
    monkeypatch.setenv("BAO_TOKEN", "not-a-token")
    with pytest.raises(labkit.LabError, match=r"Nothing answers at http://127.0.0.1:1") as caught:
        labkit.start()
    assert "not-a-token" not in str(caught.value)


def test_a_token_that_may_not_provision_is_one_sentence(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAO_ADDR", own_lab.address)
    monkeypatch.setenv("BAO_TOKEN", "s.nobody")
    with pytest.raises(labkit.LabError, match=r"cannot set up a namespace .*permission denied"):
        labkit.start()


def test_an_unknown_role_is_one_sentence_with_the_known_ones(lab: Lab) -> None:
    with pytest.raises(labkit.LabError, match=r"no role 'root': use one of confirmations, envelope-reader"):
        lab.client("root")


def test_the_audit_log_of_somebody_elses_server_is_one_sentence(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAO_ADDR", own_lab.address)
    monkeypatch.setenv("BAO_TOKEN", str(own_lab.admin.token))
    with Lab(openbao.find_or_start()) as guest, pytest.raises(labkit.LabError, match="belongs to whoever runs it"):
        guest.audit_records()


def test_a_second_start_closes_the_first(no_settings: None) -> None:
    first = labkit.start()
    with labkit.start() as second:
        assert not answers(first.address)
        assert answers(second.address)
        with pytest.raises(labkit.LabError, match="closed"):
            first.client("transit")
    assert not answers(second.address)
    second.close()


def test_closing_removes_the_server_and_its_folder(no_settings: None) -> None:
    server = openbao.find_or_start()
    folder = server.folder
    assert folder is not None
    assert folder.stat().st_mode & 0o077 == 0, "nobody else may read the audit log"
    with Lab(server) as lab:
        assert (folder / "audit.log").is_file()
    assert not answers(lab.address)
    assert not folder.exists()


def test_no_secret_shows_in_a_repr(lab: Lab) -> None:
    server = lab._server
    for text in (repr(lab), str(lab), repr(server)):
        assert server.token not in text


def test_the_root_token_is_neither_in_the_process_list_nor_in_the_servers_folder(own_lab: Lab) -> None:
    server = own_lab._server
    assert server.folder is not None
    listed = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True).stdout
    assert server.address.rsplit(":", 1)[1] in listed, "the server is in the list"
    assert server.token not in listed
    for path in server.folder.iterdir():
        assert server.token.encode() not in path.read_bytes()


def test_only_loopback_is_listened_on(own_lab: Lab) -> None:
    port = int(own_lab.address.rsplit(":", 1)[1])
    with socket.socket() as other:
        other.bind(("127.0.0.2", port))  # fails if the server had taken every address


def test_the_readers_own_settings_do_not_bend_the_server(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAO_DEV_ROOT_TOKEN_ID", "a-fixed-token")
    monkeypatch.setenv("BAO_DEV_LISTEN_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with Lab(openbao.find_or_start()) as lab:
        assert lab.admin.token != "a-fixed-token"
        assert labkit.load_key_ring(lab.client("ring-reader"))


def test_a_port_that_was_taken_meanwhile_is_no_error(no_settings: None) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert openbao._launch(taken.getsockname()[1]) is None


def test_a_missing_configuration_is_one_sentence(
    no_settings: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(openbao, "CONFIG", tmp_path)
    with pytest.raises(labkit.LabError, match=r"dev.hcl is missing: run labkit from a clone"):
        openbao.find_or_start()


def test_importing_labkit_loads_neither_matplotlib_nor_the_sdk() -> None:
    code = "import labkit, sys; print([m for m in ('matplotlib', 'mcp', 'hvac') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_using_labkit_does_not_load_matplotlib() -> None:
    code = "import labkit, sys; [getattr(labkit, n) for n in labkit.__all__]; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_server_survives_interrupt_kernel(kernel: Kernel) -> None:
    assert kernel.interrupt() == "KeyboardInterrupt"
    assert answers(kernel.address)
    assert kernel.run("print(len(labkit.load_key_ring(lab.client('ring-reader'))))") == "1\n"


def test_the_server_goes_when_the_kernel_is_killed(kernel: Kernel) -> None:
    assert answers(kernel.address)
    os.kill(kernel.pid, signal.SIGKILL)
    eventually(lambda: not answers(kernel.address), "the server is gone")


def test_no_public_name_is_hidden_by_a_module_of_that_name() -> None:
    """Importing `labkit.x` binds `x` in the package, and would replace a function that is called x."""
    modules = {path.stem for path in Path(labkit.__path__[0]).glob("*.py")}
    assert not modules & set(labkit.__all__)
    code = "import labkit; [getattr(labkit, n) for n in labkit.__all__]; print(callable(labkit.source))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(AttributeError, match="labkit has no 'strat'; it has AlreadyRedeemed, "):
        _ = labkit.strat


def test_many_threads_with_one_dead_token_all_get_through(own_lab: Lab) -> None:
    client = own_lab.client("transit")
    codec = labkit.TransitCodec(client)
    with ThreadPoolExecutor(32) as pool:
        for _ in range(5):
            own_lab.admin.auth.token.revoke(client.token)
            assert all(pool.map(codec.seal, [b"state"] * 32))


def test_the_server_gets_one_setting_and_leaves_no_token_behind(
    no_settings: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BAO_LOG_LEVEL", "trace")
    monkeypatch.setenv("VAULT_SEAL_TYPE", "transit")
    with Lab(openbao.find_or_start()) as lab:
        environ = Path(f"/proc/{lab._server._child.process.pid}/environ").read_bytes().decode()
        assert re.findall(r"(?:^|\0)((?:BAO|VAULT)_\w+)=", environ) == ["BAO_DEV_ROOT_TOKEN_ID"]
    assert list(tmp_path.iterdir()) == [], "no token is stored in the home folder"
    assert capfd.readouterr() == ("", ""), "what the server prints has its root token in it"


@pytest.mark.parametrize("name", [provision.TRANSIT_KEY, provision.ENVELOPE_KEY])
def test_a_transit_key_can_be_neither_exported_nor_backed_up(lab: Lab, name: str) -> None:
    key = lab.admin.secrets.transit.read_key(name)["data"]
    assert not key["exportable"]
    assert not key["allow_plaintext_backup"]
    assert key["type"] == "aes256-gcm96"


@pytest.mark.parametrize("role", TARGETS)
def test_a_policy_grants_each_path_just_what_it_is_there_for(role: str) -> None:
    text = (openbao.CONFIG / "policies" / f"{role}.hcl").read_text()
    granted = {
        path: re.findall(r"\w+", names)
        for path, names in re.findall(r'path "([^"]+)" \{\n  capabilities +=? *= \[([^]]*)\]', text)
    }
    assert text.count("path ") == len(granted), "each path is there once, and no wildcard hides another"
    assert not any("*" in path or path.count("+") != path.endswith("/operations/+") for path in granted)
    assert granted == TARGETS[role] | {"auth/token/lookup-self": READ}
    assert text.count('max_wrapping_ttl = "300s"') == text.count('sys/wrapping/wrap"')
    limited = re.findall(r'path "(\S+)" \{[^}]*\n  allowed_parameters = (.*)\n', text)
    assert limited == [(path, '{ "min_decryption_version" = [] }') for path in granted if path.endswith("/config")]


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("BAO_ADDR", "http://user:S3cretPw@127.0.0.1:8200", "BAO_ADDR is no address of a server"),
        ("BAO_ADDR", "http://127.0.0.1:8200/ui/", "BAO_ADDR is no address of a server"),
        ("BAO_ADDR", "127.0.0.1:8200", "BAO_ADDR is no address of a server"),
        ("BAO_TOKEN", "s.token\n", "BAO_TOKEN has a space, a line end"),
        ("BAO_TOKEN", "s.tökén", "BAO_TOKEN has a space, a line end"),
        ("BAO_NAMESPACE", "日本", "BAO_NAMESPACE has a space, a line end"),
        ("BAO_ADDR", "http://a..b", "Nothing answers at http://a..b"),
    ],
)
def test_a_setting_with_a_slip_in_it_is_one_sentence(
    no_settings: None, monkeypatch: pytest.MonkeyPatch, name: str, value: str, complaint: str
) -> None:
    monkeypatch.setenv("BAO_ADDR", "http://127.0.0.1:1")
    monkeypatch.setenv("BAO_TOKEN", "s.token")
    monkeypatch.setenv(name, value)
    with pytest.raises(labkit.LabError, match=complaint) as caught:
        labkit.start()
    assert "S3cretPw" not in str(caught.value)


def test_a_missing_certificate_file_is_one_sentence(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAO_ADDR", "https://127.0.0.1:1")
    monkeypatch.setenv("BAO_TOKEN", "s.token")
    monkeypatch.setenv("BAO_CACERT", "/no/such/file.pem")
    with pytest.raises(labkit.LabError, match="Nothing answers at"):
        labkit.start()


def test_a_token_that_may_make_a_namespace_and_no_more_leaves_none_behind(
    own_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = own_lab._server.client("", token=own_lab._server.token)
    root.sys.create_or_update_policy("maker", 'path "sys/namespaces/*" { capabilities = ["update", "delete"] }')
    monkeypatch.setenv("BAO_ADDR", own_lab.address)
    monkeypatch.setenv("BAO_TOKEN", root.auth.token.create(policies=["maker"])["auth"]["client_token"])
    with pytest.raises(labkit.LabError, match="cannot set up a namespace") as caught:
        labkit.start()
    assert "\n" not in str(caught.value)
    eventually(lambda: namespaces(own_lab) == [f"{own_lab.namespace}/"], "its namespace is removed")


def test_a_ring_in_a_mount_that_cannot_protect_it_is_not_touched(own_lab: Lab) -> None:
    own_lab.admin.sys.disable_secrets_engine("secret")
    own_lab.admin.sys.enable_secrets_engine("kv", path="secret", options={"version": "1"})
    with pytest.raises(labkit.LabError, match="not a KV v2 mount"):
        provision.provision(own_lab.admin)


def test_credentials_from_a_dead_server_are_an_outage(own_lab: Lab) -> None:
    os.kill(own_lab._server._child.process.pid, signal.SIGKILL)
    own_lab._server._child.process.wait()
    with pytest.raises(labkit.OpenBaoUnavailable, match="getting credentials for transit"):
        own_lab.client("transit")


def test_a_redirect_is_not_followed_with_a_token(no_settings: None) -> None:
    asked: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        client = openbao.Server(f"http://127.0.0.1:{server.server_port}", "").client("", token="s.token")
        with pytest.raises(labkit.OpenBaoUnavailable, match="status 307 without OpenBao's JSON"):
            labkit.load_key_ring(client)
        server.shutdown()
    assert len(asked) == 1


def test_whoever_answers_on_the_port_is_not_taken_for_our_server(no_settings: None) -> None:
    class Yes(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": {"id": "another"}}')

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Yes) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        assert openbao._launch(server.server_port) is None
        server.shutdown()


def test_a_server_whose_watchdog_was_killed_still_ends(no_settings: None) -> None:
    lab = Lab(openbao.find_or_start())
    assert lab._server._child is not None
    watchdog, bao = lab._server._child._processes
    watchdog.kill()
    watchdog.wait()
    lab.close()
    assert bao.poll() is not None
    assert lab._server.folder is not None
    assert not lab._server.folder.exists()


def test_nothing_stays_when_the_watchdog_cannot_start(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[str] = []

    make = tempfile.mkdtemp

    def remember(**options: str) -> str:
        folders.append(make(**options))
        return folders[-1]

    monkeypatch.setattr(openbao.tempfile, "mkdtemp", remember)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(labkit.LabError, match=r"/no/such/python cannot be started"):
        openbao.find_or_start()
    assert folders
    assert not Path(folders[0]).exists()
    listed = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True).stdout
    assert folders[0] not in listed


def test_a_forked_child_neither_ends_the_lab_nor_keeps_it(no_settings: None) -> None:
    """A child that ends runs its own clean-up; one that lives on holds a copy of every pipe."""
    code = """if True:
        import os, sys, time, labkit
        lab, bucket = labkit.start(), labkit.Bucket()
        if os.fork() == 0:
            with lab:
                pass
            labkit.start().close()
            sys.exit()  # runs what is registered for the end of a process
        os.wait()
        assert labkit.load_key_ring(lab.client("ring-reader")) and bucket.folder.exists()
        if os.fork() == 0:
            os.setsid(); time.sleep(60); os._exit(0)
        print(lab.address, flush=True)
        os.kill(os.getpid(), 9)
    """
    # Not until the end of what they print: the watchdog holds that open too, and would be waited for.
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        address = parent.stdout.readline().strip()
        assert address.startswith("http://")
        assert parent.wait(timeout=30) == -signal.SIGKILL
    eventually(lambda: not answers(address), "the server is gone, though a child holds its pipe")


def test_the_variable_that_is_meant_is_the_one_that_is_named(
    no_settings: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_ADDR", "http://127.0.0.1:1")
    with pytest.raises(labkit.LabError, match=r"^VAULT_ADDR is http://127.0.0.1:1 but .* or unset VAULT_ADDR and"):
        labkit.start()


def test_a_sealed_server_is_not_blamed_on_the_token(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    own_lab._server.client("", token=own_lab._server.token).sys.seal()
    monkeypatch.setenv("BAO_ADDR", own_lab.address)
    monkeypatch.setenv("BAO_TOKEN", str(own_lab.admin.token))
    with pytest.raises(labkit.LabError, match=r"OpenBao at http://.* cannot set up .*\(Vault is sealed\): check its"):
        labkit.start()


def test_an_interrupted_start_leaves_nothing_on_a_shared_server(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    provisioned = provision.provision

    def interrupted(*arguments: Any, **options: Any) -> None:
        provisioned(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setenv("BAO_ADDR", own_lab.address)
    monkeypatch.setenv("BAO_TOKEN", str(own_lab.admin.token))
    monkeypatch.setattr(provision, "provision", interrupted)
    with pytest.raises(KeyboardInterrupt):
        labkit.start()
    eventually(lambda: namespaces(own_lab) == [f"{own_lab.namespace}/"], "its namespace is removed")


def test_a_value_is_found_in_the_audit_log_by_its_hash(own_lab: Lab) -> None:
    client = own_lab.client("transit")
    ciphertext = client.secrets.transit.encrypt_data(provision.TRANSIT_KEY, "YQ==")["data"]["ciphertext"]
    last = own_lab.audit_records()[-1]
    assert last["response"]["data"]["ciphertext"] == own_lab.audit_hash(ciphertext)
    assert last["request"]["data"]["plaintext"] == own_lab.audit_hash("YQ==")
    assert own_lab.audit_hash("YQ=") != own_lab.audit_hash("YQ==")


def test_the_audit_device_of_somebody_elses_server_is_one_sentence(
    own_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAO_ADDR", own_lab.address)
    monkeypatch.setenv("BAO_TOKEN", str(own_lab.admin.token))
    with Lab(openbao.find_or_start()) as guest, pytest.raises(labkit.LabError, match="belongs to whoever runs it"):
        guest.audit_hash("a")


def test_a_bearer_presents_one_token_and_logs_in_as_nobody(lab: Lab) -> None:
    claim = labkit.SingleUse(lab.client("confirmations")).issue({"a": "plan"})
    holder = lab.bearer(claim)
    with pytest.raises(hvac.exceptions.Forbidden):
        holder.secrets.kv.v2.list_secrets("mcp")
    assert holder.token == claim


def test_the_settings_for_another_process_hold_no_token(lab: Lab) -> None:
    settings = lab.environment()
    assert settings["BAO_ADDR"] == lab.address
    assert settings["BAO_NAMESPACE"] == lab.namespace
    assert str(lab.admin.token) not in str(settings)


def test_a_certificate_file_is_found_from_another_folder(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab._server, "folder", None)
    monkeypatch.setattr(lab._server, "verify", "ca.pem")
    assert lab.environment()["BAO_CACERT"] == str(Path("ca.pem").absolute())


def test_an_odd_character_in_the_audit_log_breaks_no_line(own_lab: Lab) -> None:
    before = len(own_lab.audit_records())
    own_lab.admin.auth.token.create(meta={"note": "x\x85y\u2028z"}, policies=["default"])
    assert len(own_lab.audit_records()) == before + 2, "a request and a response"
