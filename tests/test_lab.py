"""A lab is a fresh namespace on a real OpenBao, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hvac.exceptions
import pytest
import requests
from jupyter_client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from mcp.server.request_state import InvalidRequestState

import labkit
from labkit import openbao, provision
from labkit.lab import Lab

TARGETS = {
    "ring-reader": ["secret/data/mcp/request-state-keys"],
    "transit": ["transit/encrypt/mcp-request-state", "transit/decrypt/mcp-request-state"],
    "confirmations": ["sys/wrapping/wrap"],
    "mcp-server": [
        "secret/data/mcp/request-state-keys",
        "transit/encrypt/mcp-request-state",
        "transit/decrypt/mcp-request-state",
        "sys/wrapping/wrap",
        "sys/wrapping/unwrap",
    ],
}


def answers(address: str) -> bool:
    try:
        return requests.get(f"{address}/v1/sys/health", timeout=2).ok
    except requests.RequestException:
        return False


def eventually(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline, f"not within 30 s: {what}"
        time.sleep(0.02)


def test_every_role_is_a_policy_file_and_has_just_its_own_policy(lab: Lab) -> None:
    assert set(provision.roles()) == set(TARGETS)
    for role in TARGETS:
        token = lab.client(role).auth.token.lookup_self()["data"]
        assert token["policies"] == [role], "the default policy would grant wrapping, unwrapping and more"
        assert token["ttl"] <= provision.TOKEN_TTL


@pytest.mark.parametrize("role", TARGETS)
def test_a_role_may_do_what_its_policy_names_and_nothing_else(lab: Lab, role: str) -> None:
    paths = sorted({path for paths in TARGETS.values() for path in paths})
    paths += ["transit/keys/mcp-request-state", "transit/export/encryption-key/mcp-request-state", "sys/policies/acl/x"]
    paths += ["secret/metadata/mcp/request-state-keys", "cubbyhole/x", "auth/token/create", "sys/mounts"]
    # sys/capabilities-self is not granted, so the one who provisioned asks on the role's behalf.
    token = lab.client(role).token
    answer = lab.admin.adapter.post("/v1/sys/capabilities", json={"token": token, "paths": paths})
    allowed = [path for path in paths if answer["data"][path] != ["deny"]]
    assert allowed == sorted(TARGETS[role])


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


def test_two_labs_on_one_server_share_nothing(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab(openbao.find_or_start()) as host:
        monkeypatch.setenv("BAO_ADDR", host.address)
        monkeypatch.setenv("BAO_TOKEN", str(host.admin.token))
        with Lab(openbao.find_or_start()) as one, Lab(openbao.find_or_start()) as two:
            assert len({host.namespace, one.namespace, two.namespace}) == 3
            rings = [labkit.load_key_ring(lab.client("ring-reader")) for lab in (one, two)]
            assert rings[0] != rings[1]
            token = labkit.TransitCodec(one.client("transit")).seal(b"state")
            with pytest.raises(InvalidRequestState):
                labkit.TransitCodec(two.client("transit")).unseal(token)
        assert answers(host.address), "somebody else's server is left running"
        listed = host.admin.adapter.request("list", "/v1/sys/namespaces", raise_exception=False)
        assert "lab-" not in str(getattr(listed, "text", listed)), "what was made on a shared server is removed"


def test_a_process_that_ends_takes_its_namespace_along(own_lab: Lab) -> None:
    env = {**os.environ, "BAO_ADDR": own_lab.address, "BAO_TOKEN": str(own_lab.admin.token)}
    code = "import labkit; lab = labkit.start(); print(lab.namespace); labkit.load_key_ring(lab.client('ring-reader'))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.startswith("lab-"), done.stderr
    listed = own_lab.admin.adapter.request("list", "/v1/sys/namespaces", raise_exception=False)
    assert done.stdout.strip() not in str(getattr(listed, "text", listed))


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
    with pytest.raises(labkit.LabError, match=r"no role 'root': use one of confirmations, mcp-server"):
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


@pytest.fixture
def kernel(no_settings: None) -> Iterator[tuple[BlockingKernelClient, Callable[[], None], int, str]]:
    """A real Jupyter kernel with a lab in it: its client, how to interrupt it, its pid, and the lab's address."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        said: list[str] = []

        def hear(message: dict[str, dict[str, str]]) -> None:
            said.append(message["content"].get("text", ""))

        client.execute_interactive(
            "import labkit, os; lab = labkit.start(); print(lab.address, os.getpid())", output_hook=hear, timeout=60
        )
        address, pid = "".join(said).split()
        yield client, manager.interrupt_kernel, int(pid), address
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_the_server_survives_interrupt_kernel(
    kernel: tuple[BlockingKernelClient, Callable[[], None], int, str],
) -> None:
    client, interrupt, _, address = kernel
    client.execute("import time; print('waiting', flush=True); time.sleep(60)")
    while client.get_iopub_msg(timeout=30)["content"].get("text", "").strip() != "waiting":
        pass
    interrupt()
    assert client.get_shell_msg(timeout=30)["content"]["ename"] == "KeyboardInterrupt"
    assert answers(address)
    reply = client.execute_interactive("assert labkit.load_key_ring(lab.client('ring-reader'))", timeout=30)
    assert reply["content"]["status"] == "ok"


def test_the_server_goes_when_the_kernel_is_killed(
    kernel: tuple[BlockingKernelClient, Callable[[], None], int, str],
) -> None:
    _, _, pid, address = kernel
    assert answers(address)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not answers(address), "the server is gone")


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
