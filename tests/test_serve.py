"""`serve` and `provision` as a person runs them: an honest purge, or one sentence that says how to mend it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from mcp.server.request_state import RequestStateSecurity
from test_lab import eventually

from labkit import attacks, credentials, provision, replicas, wire
from labkit.bucket import Bucket
from labkit.errors import LabError
from labkit.janitor import TOOL
from labkit.key_ring import load_key_ring
from labkit.lab import Lab
from labkit.ledger import OPERATIONS, Ledger
from labkit.openbao import CONFIG, find_or_start

LABKIT = [sys.executable, "-m", "labkit"]


@dataclass
class Command:
    """A command that would work; each test spoils one thing of it.

    Attributes:
        lab: the namespace that it works in.
        folder: with credentials for every role.
        bucket: the folder that is purged.
        arguments: what `serve` is given besides the two folders.
        env: the whole of its environment.
    """

    lab: Lab
    folder: Path
    bucket: Path
    arguments: list[str]
    env: dict[str, str]

    def serve(self) -> list[str]:
        folders = ["--bucket", str(self.bucket), "--credentials", str(self.folder)]
        return [*LABKIT, "serve", "--port", "0", *folders, *self.arguments]

    def provision(self) -> list[str]:
        return [*LABKIT, "provision", "--credentials", str(self.folder), *self.arguments]

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60)

    def secrets(self) -> list[str]:
        """Everything that no output may show."""
        rings = [in_kv(self.lab, path)["keys"] for path in (provision.RING_PATH, provision.ENVELOPE_PATH)]
        return [str(self.lab.admin.token), self.env.get("BAO_TOKEN", "no token"), *rings, *self.secret_ids()]

    def secret_ids(self) -> list[str]:
        files = [file for file in self.folder.glob("*.secret-id") if file.is_file()]
        return [file.read_text().strip() for file in files]


def in_kv(lab: Lab, path: str) -> dict[str, str]:
    kv = lab.admin.secrets.kv.v2
    answer = kv.read_secret_version(path, mount_point="secret", raise_on_deleted_version=True)
    return dict(answer["data"]["data"])


@pytest.fixture(scope="module")
def handed_out(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `provision` writes, once for all."""
    folder = tmp_path_factory.mktemp("handed-out") / "credentials"
    for role in provision.roles():
        credentials.hand_out(lab.admin, role, folder)
    return folder


@pytest.fixture
def command(lab: Lab, handed_out: Path, tmp_path: Path) -> Command:
    shutil.copytree(handed_out, tmp_path / "credentials")
    (tmp_path / "bucket").mkdir(exist_ok=True)
    return Command(lab, tmp_path / "credentials", tmp_path / "bucket", [], environment(lab))


@pytest.fixture
def provisioner(lab: Lab, tmp_path: Path) -> Command:
    """For `provision`: nothing is written yet, and the one who provisions has a token."""
    env = environment(lab) | {"BAO_TOKEN": str(lab.admin.token)}
    (tmp_path / "bucket").mkdir(exist_ok=True)
    return Command(lab, tmp_path / "credentials", tmp_path / "bucket", [], env)


def environment(lab: Lab) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("BAO_", "VAULT_"))}
    return mine | lab.environment()


@pytest.fixture(scope="module")
def sealed() -> Iterator[str]:
    """The address of an OpenBao that is sealed."""
    with pytest.MonkeyPatch.context() as settings:
        for name in ("BAO_ADDR", "VAULT_ADDR"):
            settings.delenv(name, raising=False)
        server = find_or_start()
    try:
        server.client("", token=server.token).sys.seal()
        yield server.address
    finally:
        server.close()


@contextmanager
def saying(page: bytes, status: int = 200, kind: str = "text/html") -> Iterator[str]:
    """The address of something that answers `page` to everything."""

    class Page(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        do_GET = do_POST = do_PUT = answer

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def assert_one_sentence(done: subprocess.CompletedProcess[str], complaint: str, secrets: list[str]) -> None:
    lines = done.stderr.splitlines()
    assert done.returncode in (1, 2), done
    if done.returncode == 2:
        assert lines[0].startswith("usage: "), done
        assert all(line.startswith(" ") for line in lines[1:-1]), done
        assert re.match(r"python -m labkit \w+: error: ", lines[-1]), done
    else:
        assert len(lines) == 1, done
        assert re.fullmatch(r"labkit: .+\.", lines[0]), done
    assert re.search(complaint, lines[-1]), done
    assert done.stdout == ""
    for secret in secrets:
        assert secret not in done.stderr


Spoil = Callable[[Command], object]


def setting(**settings: str) -> Spoil:
    return lambda command: command.env.update(settings)


def arguments(*given: str) -> Spoil:
    return lambda command: command.arguments.extend(given)


def without(*names: str) -> Spoil:
    return lambda command: [command.env.pop(name) for name in names]


def file(change: Callable[[Path], object], name: str = "ring-reader.secret-id") -> Spoil:
    return lambda command: change(command.folder / name)


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def a_role_that_may_not(role: str) -> Spoil:
    """The login of another role in the place of the one for `role`."""

    def spoil(command: Command) -> None:
        for kind in ("role-id", "secret-id"):
            shutil.copy(command.folder / f"ring-reader.{kind}", command.folder / f"{role}.{kind}")

    return spoil


def with_a_ledger(spoil: Spoil) -> Spoil:
    return lambda command: (command.arguments.extend(["--recover-after", "60"]), spoil(command))


def a_folder_of_two_lines(command: Command) -> None:
    command.folder = command.folder.parent / "one\ntwo\r\u2028three"


def a_file_of_two_lines_for_a_bucket(command: Command) -> None:
    command.bucket = command.folder.parent / "one\ntwo"
    command.bucket.touch()


def a_file_for_a_bucket(command: Command) -> None:
    command.bucket = command.folder.parent / "a-file"
    command.bucket.touch()


NOT_LET_IN = (
    "refused the AppRole login of ring-reader: its secret-id is unknown, used up or expired, or the namespace in "
    "BAO_NAMESPACE was not provisioned; provision it"
)
WRITE_IT = "name the folder and a role that `python -m labkit provision` wrote, or let it write there"
MISTAKES: dict[str, tuple[Spoil, str]] = {
    "a codec that is none": (arguments("--codec", "aes"), r"invalid choice: 'aes' \(choose from .*ring"),
    "a port that is none": (arguments("--port", "http"), "'http' is no port: give a number from 1 to 65535"),
    "a port too high": (arguments("--port", "65536"), "'65536' is no port: give a number"),
    "a ttl of nothing": (arguments("--ttl", "0"), "'0' is no number of seconds: give a whole one from 1 to 300"),
    "a ttl too long": (arguments("--ttl", "301"), "'301' is no number of seconds: give a whole one from 1 to 300"),
    "a ttl in words": (arguments("--ttl", "2m"), "'2m' is no number of seconds: give a whole one from 1 to 300"),
    "a port of 5,000 digits": (arguments("--port", "9" * 5000), "'9{20}' is no port: give a number from 1 to 65535$"),
    "a ttl of 5,000 digits": (
        arguments("--ttl", "1" * 5000),
        "'1{20}' is no number of seconds: give a whole one from 1",
    ),
    "a port in other digits": (arguments("--port", "٨٠٨٠"), "'٨٠٨٠' is no port: give a number from 1 to 65535"),
    "no name of a bucket": (arguments("--bucket", ""), r"--bucket: an empty name would be the folder you are in: name"),
    "no name of a folder": (arguments("--credentials", ""), r"--credentials: an empty name would be the folder you ar"),
    "a role that is a path": (arguments("--role", "../../root"), "is no name of a role: give one such as ring-reader"),
    "a role of two lines": (arguments("--role", "ring\nreader"), r"'ring\\nreader' is no name of a role"),
    "no address": (without("BAO_ADDR"), "BAO_ADDR is not set.*: export the address of one that runs"),
    "a slip in the address": (setting(BAO_ADDR="localhost:8200"), "BAO_ADDR is no address of a server: give a URL"),
    "nobody at the address": (setting(BAO_ADDR="http://127.0.0.1:1"), "is unreachable while logging in as .*: check"),
    "a namespace that is none": (setting(BAO_NAMESPACE="nowhere"), NOT_LET_IN),
    "a role without the ring": (
        arguments("--codec", "ring", "--role", "transit"),
        rf"refused our token while reading the key ring at secret/{provision.RING_PATH} .*: check the role's policy",
    ),
    "a role without the envelope": (
        arguments("--codec", "envelope", "--role", "ring-reader"),
        rf"refused our token while reading the key ring at secret/{provision.ENVELOPE_PATH} .*: check the role's",
    ),
    "a role without Transit": (
        arguments("--codec", "transit", "--role", "ring-reader"),
        "refused our token while sealing with the Transit key mcp-request-state .*: check the role's policy",
    ),
    "a role without Transit, in batches": (
        arguments("--codec", "batched", "--role", "ring-reader"),
        "refused our token while sealing with the Transit key mcp-request-state .*: check the role's policy",
    ),
    "a role that nobody knows": (arguments("--role", "nobody"), rf"nobody\.role-id cannot be read .*: {WRITE_IT}"),
    "no role-id": (file(Path.unlink, "ring-reader.role-id"), rf"ring-reader\.role-id cannot be read .*: {WRITE_IT}"),
    "no secret-id": (file(Path.unlink), rf"ring-reader\.secret-id cannot be read \(No such file.*: {WRITE_IT}"),
    "no confirmations": (
        file(Path.unlink, "confirmations.secret-id"),
        rf"confirmations\.secret-id cannot be read .*: {WRITE_IT}",
    ),
    "a role that may not park plans": (
        a_role_that_may_not("confirmations"),
        r"refused our token while parking a plan \(permission denied\): check the role's policy",
    ),
    "a secret-id for all to read": (
        file(lambda path: path.chmod(0o644)),
        r"ring-reader\.secret-id can be read by others: destroy that secret-id, and let `python -m labkit provision` "
        "write another one",
    ),
    "a secret-id that is a pipe": (
        file(replaced_by_a_pipe),
        r"ring-reader\.secret-id holds no credential: let `python -m labkit provision` write it anew",
    ),
    "a role-id that is a pipe": (
        file(replaced_by_a_pipe, "confirmations.role-id"),
        r"confirmations\.role-id holds no credential: let `python -m labkit provision` write it anew",
    ),
    "a folder of two lines": (
        a_folder_of_two_lines,
        rf"/one two three/ring-reader\.role-id cannot be read \(No such file.*: {WRITE_IT}",
    ),
    "a bucket of two lines": (
        a_file_of_two_lines_for_a_bucket,
        r"/one two is no folder: make it, or name another one with --bucket",
    ),
    "a secret-id that is empty": (
        file(lambda path: path.write_text("\n")),
        r"ring-reader\.secret-id holds no credential: let `python -m labkit provision` write it anew",
    ),
    "a secret-id that is binary": (
        file(lambda path: path.write_bytes(bytes(range(256)))),
        r"ring-reader\.secret-id holds no credential: let `python -m labkit provision` write it anew",
    ),
    "a secret-id of nobody": (
        file(lambda path: path.write_text(secrets.token_hex(18))),
        NOT_LET_IN,
    ),
    "a recovery after nothing": (
        arguments("--recover-after", "0"),
        "--recover-after: '0' is no number of seconds: give a whole one",
    ),
    "no ledger": (
        with_a_ledger(file(Path.unlink, "ledger.secret-id")),
        rf"/ledger\.secret-id cannot be read \(No such file.*: {WRITE_IT}",
    ),
    "a ledger for all to read": (
        with_a_ledger(file(lambda path: path.chmod(0o644), "ledger.secret-id")),
        r"/ledger\.secret-id can be read by others: destroy that secret-id",
    ),
    "a ledger's secret-id of nobody": (
        with_a_ledger(file(lambda path: path.write_text(secrets.token_hex(18)), "ledger.secret-id")),
        NOT_LET_IN.replace("ring-reader", "ledger"),
    ),
    "a role that may not look into the ledger": (
        with_a_ledger(a_role_that_may_not("ledger")),
        r"refused our token while listing operations \(permission denied\): check the role's policy",
    ),
    "a bucket that is a file": (
        a_file_for_a_bucket,
        "/a-file is no folder: make it, or name another one with",
    ),
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda path: path.chmod(0o640), "can be read by others: destroy that secret-id"),
        (lambda path: path.chmod(0o601), "can be read by others: destroy that secret-id"),
        (lambda path: path.write_text(path.read_text() * 2), "holds no credential"),
        (lambda path: path.write_text("gültig"), "holds no credential"),
        (lambda path: path.write_text("a\0b"), "holds no credential"),
        (replaced_by_a_folder, "cannot be read"),
        (replaced_by_a_pipe, "holds no credential"),
    ],
)
def test_only_a_file_with_one_line_for_nobody_else_to_read_is_a_credential(
    command: Command, change: Callable[[Path], object], complaint: str
) -> None:
    for kind in ("role-id", "secret-id"):
        path = command.folder / f"transit.{kind}"
        shown = path.read_text().strip()
        assert shown in credentials.read("transit", command.folder)
        change(path)
        with pytest.raises(LabError, match=rf"transit\.{kind} {complaint}") as caught:
            credentials.read("transit", command.folder)
        assert shown not in str(caught.value)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        credentials.hand_out(command.lab.admin, "transit", command.folder)


Outcome = tuple[subprocess.CompletedProcess[str], list[str]]


@pytest.fixture(scope="module")
def outcomes(
    lab: Lab, handed_out: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Outcome]]]:
    """What came of each mistake, and what it must not show. As many are made at once as there are processors."""

    def make(spoil: Spoil, folder: Path) -> Outcome:
        shutil.copytree(handed_out, folder / "credentials")
        (folder / "bucket").mkdir()
        command = Command(lab, folder / "credentials", folder / "bucket", [], environment(lab))
        hidden = command.secrets()
        spoil(command)
        return command.run(command.serve()), hidden

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        yield {name: pool.submit(make, spoil, tmp_path_factory.mktemp("x")) for name, (spoil, _) in MISTAKES.items()}
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_at_serve_is_one_sentence(outcomes: dict[str, Future[Outcome]], name: str) -> None:
    done, hidden = outcomes[name].result()
    assert_one_sentence(done, MISTAKES[name][1], hidden)


def test_a_secret_id_that_was_revoked_is_one_sentence(command: Command) -> None:
    credentials.hand_out(command.lab.admin, "ring-reader", command.folder)
    _, secret_id = credentials.read("ring-reader", command.folder)
    command.lab.admin.auth.approle.destroy_secret_id("ring-reader", secret_id)
    assert_one_sentence(
        command.run(command.serve()),
        NOT_LET_IN,
        command.secrets(),
    )


def test_a_port_that_is_taken_is_one_sentence(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command.arguments = ["--port", str(port)]
        done = command.run(command.serve())
    assert_one_sentence(
        done,
        rf"Nothing can listen on 127\.0\.0\.1:{port} \(Address already in use\): choose another port with --port",
        command.secrets(),
    )


def test_a_sealed_openbao_is_one_sentence(command: Command, provisioner: Command, sealed: str) -> None:
    command.env["BAO_ADDR"] = provisioner.env["BAO_ADDR"] = sealed
    assert_one_sentence(
        command.run(command.serve()),
        r"OpenBao failed while logging in as ring-reader \(Vault is sealed\): check its status",
        command.secrets(),
    )
    assert_one_sentence(
        provisioner.run(provisioner.provision()),
        r"does not provision the namespace \S+ \(Vault is sealed\): check its status",
        provisioner.secrets(),
    )


@pytest.mark.parametrize("page", [b"<html>Welcome</html>", b"{}"])
def test_nonsense_in_place_of_openbao_is_one_sentence(command: Command, provisioner: Command, page: bytes) -> None:
    with saying(page) as address:
        command.env["BAO_ADDR"] = provisioner.env["BAO_ADDR"] = address
        assert_one_sentence(
            command.run(command.serve()),
            r"OpenBao failed while logging in as ring-reader \(.+\): check its status",
            command.secrets(),
        )
        assert_one_sentence(
            provisioner.run(provisioner.provision()),
            r"does not provision the namespace \S+ \(.+\): check its status",
            provisioner.secrets(),
        )


@pytest.mark.parametrize(
    ("page", "status"),
    [(b"[" * 100_000, 200), (b'{"auth":' * 100_000, 200), (b'{"errors": [{"no": 1}, 7, null]}', 500)],
    ids=["deep lists", "deep objects", "errors that are none"],
)
def test_an_answer_that_cannot_be_read_is_one_sentence(
    command: Command, provisioner: Command, page: bytes, status: int
) -> None:
    with saying(page, status, "application/json") as address:
        command.env["BAO_ADDR"] = provisioner.env["BAO_ADDR"] = address
        for done, doing in (
            (command.run(command.serve()), "logging in as ring-reader"),
            (provisioner.run(provisioner.provision()), "provisioning"),
        ):
            assert_one_sentence(
                done,
                rf"Nothing that can be read as OpenBao's answer came while {doing} \(\w+\): check the address, and any",
                command.secrets(),
            )


ROGUE = "no\x1b[2J\x1b]0;owned\x07 \u202eroom\x9b1m\r\n\x00" + "x" * 5000


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        (json.dumps({"errors": [ROGUE, ROGUE]}), "application/json"),
        (ROGUE, "text/plain; charset=utf-8"),
    ],
)
def test_what_somebody_at_the_address_says_is_shown_short_and_bends_no_terminal(
    command: Command, provisioner: Command, page: str, kind: str
) -> None:
    with saying(page.encode(), 500, kind) as address:
        command.env["BAO_ADDR"] = provisioner.env["BAO_ADDR"] = address
        for done in (command.run(command.serve()), provisioner.run(provisioner.provision())):
            assert_one_sentence(done, r"\(.*no.*owned.*\): check", command.secrets())
            (line,) = done.stderr.splitlines()
            assert line.isprintable()
            assert 0 < line.count("x") < 300
            assert len(line) < 600


@pytest.mark.parametrize(
    ("codec", "path", "text", "complaint"),
    [
        ("ring", provision.RING_PATH, "xyz", r"Entry 1 of .* secret/\S+ is not plain hexadecimal .*: write"),
        ("envelope", provision.ENVELOPE_PATH, "ab" * 32, r"Entry 1 of .* is no Transit ciphertext .*: write"),
        ("ring", provision.RING_PATH, None, r"There is no key ring at secret/\S+: write one, `bao kv put"),
        ("envelope", provision.ENVELOPE_PATH, None, r"There is no key ring at secret/\S+: write one, `bao kv put"),
    ],
)  # fmt: skip
def test_a_ring_that_is_spoiled_or_gone_is_one_sentence(
    spoiled: Command, codec: str, path: str, text: str | None, complaint: str
) -> None:
    hidden, kv = spoiled.secrets(), spoiled.lab.admin.secrets.kv.v2
    good = in_kv(spoiled.lab, path)
    try:
        if text is None:
            kv.delete_metadata_and_all_versions(path, mount_point="secret")
        else:
            kv.create_or_update_secret(path, secret={"keys": text}, mount_point="secret")
        spoiled.arguments = ["--codec", codec]
        assert_one_sentence(spoiled.run(spoiled.serve()), complaint, [*hidden, *([text] if text else [])])
    finally:
        kv.create_or_update_secret(path, secret=good, mount_point="secret")


@pytest.fixture
def spoiled(own_namespace: Lab, tmp_path: Path) -> Command:
    for role in provision.roles():
        credentials.hand_out(own_namespace.admin, role, tmp_path / "credentials")
    (tmp_path / "bucket").mkdir(exist_ok=True)
    return Command(own_namespace, tmp_path / "credentials", tmp_path / "bucket", [], environment(own_namespace))


def test_a_ledger_that_may_be_read_and_not_written_is_one_sentence(spoiled: Command) -> None:
    """A role that lacks a right is told now, and not to the first user."""
    policy = (CONFIG / "policies" / "ledger.hcl").read_text()
    readable = policy.replace('"create", "read", "update"', '"read"')
    assert readable != policy
    spoiled.arguments = ["--recover-after", "60"]
    try:
        spoiled.lab.admin.sys.create_or_update_policy("ledger", readable)
        done = spoiled.run(["timeout", "10", *spoiled.serve()])
        assert_one_sentence(done, "refused our token while writing an operation down .*: check", spoiled.secrets())
    finally:
        spoiled.lab.admin.sys.create_or_update_policy("ledger", policy)


@dataclass
class Serving:
    """A replica that runs, and what it has logged so far."""

    url: str
    process: subprocess.Popen[str]
    command: Command
    log: Path

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])

    def said(self) -> str:
        return self.log.read_text()

    def connection(self) -> socket.socket:
        """A connection on which one request has been answered, and that is idle now."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/nothing-here")
        assert connection.getresponse().read() == b"Not Found"
        return connection.sock


@contextmanager
def serving(command: Command) -> Iterator[Serving]:
    log = command.folder.parent / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(command.serve(), env=command.env, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.fullmatch(r"storage-janitor seals with \w+ at http://127\.0\.0\.1:\d+/mcp\n", line), log.read_text()
        yield Serving(line.split()[-1], process, command, log)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module", params=replicas.ROLES)
def replica(
    request: pytest.FixtureRequest, lab: Lab, handed_out: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    """A replica for each codec, for all the tests that leave it running."""
    folder = tmp_path_factory.mktemp(request.param)
    shutil.copytree(handed_out, folder / "credentials")
    arguments = ["--codec", request.param]
    (folder / "bucket").mkdir()
    with serving(Command(lab, folder / "credentials", folder / "bucket", arguments, environment(lab))) as replica:
        yield replica


def purge(url: str, bucket: Path) -> tuple[list[str], attacks.Question]:
    """Ask, confirm an altered state, confirm the genuine one: what was said to either, and the genuine state."""
    Bucket(bucket).reset(["logs/1", "logs/2", "secrets/root.key"])

    async def rounds() -> tuple[list[str], attacks.Question]:
        async with wire.over_http(url) as (client, _):
            question = await attacks.ask(client, "logs/")
            moves = (attacks.tamper_one_byte(client, question), attacks.confirm(client, question))
            return [await attacks.verdict(move) for move in moves], question

    return asyncio.run(rounds())


def test_a_replica_serves_an_honest_purge_and_refuses_an_altered_state(replica: Serving) -> None:
    said, _ = purge(replica.url, replica.command.bucket)
    assert said == ["error -32602: Invalid or expired requestState", "Purged 2 object(s): logs/1, …"]
    assert Bucket(replica.command.bucket).keys() == ["secrets/root.key"]


def test_a_replica_logs_why_it_refused_and_never_what(replica: Serving) -> None:
    before = len(replica.said())
    _, question = purge(replica.url, replica.command.bucket)
    eventually(lambda: "requestState rejected on tools/call: seal" in replica.said()[before:], "the reason is logged")
    body = re.split(r"[.:]", question.state)[-1]
    assert not any(body[at : at + 16] in replica.said() for at in range(0, len(body) - 16, 16))
    for secret in replica.command.secrets():
        assert secret not in replica.said()


def test_a_replica_listens_on_loopback_only(replica: Serving) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.2", replica.port))  # fails if the replica had taken every address


def test_nothing_secret_is_in_a_replicas_command_line_or_environment(replica: Serving) -> None:
    listed = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(replica.command.folder) in listed, "the replica is in the list"
    environ = Path(f"/proc/{replica.process.pid}/environ").read_text()
    for secret in replica.command.secrets():
        assert secret not in listed
        assert secret not in environ


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_replica_ends_when_it_is_told_to_and_says_nothing(command: Command, stop: signal.Signals) -> None:
    with serving(command) as replica:
        with replica.connection():
            replica.process.send_signal(stop)
            assert replica.process.wait(timeout=30) == 0
        assert replica.said() == ""


def test_a_replica_ends_though_somebody_never_finishes_a_request(command: Command) -> None:
    with serving(command) as replica:
        with replica.connection() as stuck:
            stuck.sendall(f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{replica.port}\r\nContent-Length: 9\r\n".encode())
            stuck.sendall(b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n")
            assert stuck.recv(100).startswith(b"HTTP/1.1 100"), "it waits for the rest"
            for _ in range(3):  # an impatient person presses it again
                replica.process.send_signal(signal.SIGINT)
            assert replica.process.wait(timeout=30) == 0
        assert replica.said() == ""


def test_a_replica_starts_again_on_the_port_that_the_last_one_had(command: Command) -> None:
    with serving(command) as first:
        lingering = first.connection()
    with lingering:
        command.arguments = ["--port", str(first.port)]
        with serving(command) as second:
            assert second.port == first.port


def test_provision_writes_what_serve_needs_for_nobody_else_to_read(provisioner: Command) -> None:
    done = provisioner.run(provisioner.provision())
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{provisioner.folder}: credentials of {', '.join(provision.roles())}\n"
    assert done.stderr == ""
    assert stat.S_IMODE(provisioner.folder.stat().st_mode) == 0o700
    files = sorted(provisioner.folder.iterdir())
    assert [file.name for file in files] == [f"{r}.{k}" for r in provision.roles() for k in ("role-id", "secret-id")]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    provisioner.env["BAO_TOKEN"] = "not-a-token"  # `serve` uses what it was handed, and no token
    with serving(provisioner) as replica:
        assert purge(replica.url, provisioner.bucket)[0][1] == "Purged 2 object(s): logs/1, …"


def test_a_generous_umask_opens_nothing(provisioner: Command) -> None:
    done = provisioner.run(["sh", "-c", 'umask 0; exec "$@"', "sh", *provisioner.provision()])
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(provisioner.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in provisioner.folder.iterdir()} == {0o600}


def test_provision_twice_keeps_the_ring_and_writes_new_secret_ids(provisioner: Command) -> None:
    assert provisioner.run(provisioner.provision()).returncode == 0
    rings, first = provisioner.secrets()[:4], provisioner.secret_ids()
    assert provisioner.run(provisioner.provision()).returncode == 0
    assert provisioner.secrets()[:4] == rings
    assert len(set(first) | set(provisioner.secret_ids())) == 2 * len(provision.roles())


def test_what_provision_writes_goes_neither_through_a_link_nor_into_an_open_file(
    provisioner: Command, tmp_path: Path
) -> None:
    provisioner.folder.mkdir()
    target = tmp_path / "target"
    linked, opened = (provisioner.folder / f"{role}.secret-id" for role in ("transit", "ring-reader"))
    target.write_text("theirs")
    linked.symlink_to(target)
    opened.touch(0o666)
    with opened.open() as held:
        assert provisioner.run(provisioner.provision()).returncode == 0
        assert held.read() == ""
    assert target.read_text() == "theirs"
    for path in (linked, opened):
        assert not path.is_symlink()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert len(path.read_text().strip()) == 36


def in_the_way(command: Command) -> None:
    command.folder.touch()


def under_a_file(command: Command) -> None:
    command.folder.touch()
    command.folder = command.folder / "credentials"


def a_link_to_nothing(command: Command) -> None:
    command.folder.symlink_to("nothing")


def a_folder_in_a_files_place(command: Command) -> None:
    (command.folder / "confirmations.role-id").mkdir(parents=True)


def where_nobody_may_write(command: Command) -> None:
    command.folder = Path("/proc/credentials")  # not even root


def under_a_file_of_two_lines(command: Command) -> None:
    (command.folder.parent / "one\ntwo").touch()
    command.folder = command.folder.parent / "one\ntwo" / "credentials"


NOT_SET = "BAO_ADDR and BAO_TOKEN are needed: export both, as `python -m labkit up` prints them"
PROVISION_MISTAKES: dict[str, tuple[Spoil, str]] = {
    "no address": (without("BAO_ADDR"), NOT_SET),
    "no token": (without("BAO_TOKEN"), NOT_SET),
    "a slip in the token": (setting(BAO_TOKEN="s.token\n"), "BAO_TOKEN has a space, a line end .*: export it anew"),
    "a token of nobody": (
        setting(BAO_TOKEN="s.nobodys-token"),
        r"does not provision the namespace \S+ \(permission denied.*\): check .* that BAO_TOKEN administers it",
    ),
    "a namespace that is none": (
        setting(BAO_NAMESPACE="nowhere"),
        r"does not provision the namespace nowhere \(.*not found\): check .*BAO_NAMESPACE",
    ),
    "nobody at the address": (
        setting(BAO_ADDR="http://127.0.0.1:1"),
        "unreachable while provisioning .*: check its address and certificate, and that it runs",
    ),
    "no name of a folder": (arguments("--credentials", ""), "--credentials: an empty name would be the folder you are"),
    "a path of two lines": (
        under_a_file_of_two_lines,
        r"cannot be written to \S+/one two/credentials \(Not a directory\): name another folder",
    ),
    "a file in the way": (in_the_way, r"cannot be written to \S+ \(File exists\): name another folder"),
    "a folder under a file": (under_a_file, r"cannot be written to \S+ \(Not a directory\): name another folder"),
    "a link to nothing": (a_link_to_nothing, r"cannot be written to \S+ \(File exists\): name another folder"),
    "a folder that nobody may make": (where_nobody_may_write, r"cannot be written to /proc/\S+ \(.+\): name another"),
    "a folder in a file's place": (a_folder_in_a_files_place, r"cannot be written to \S+ \(.+\): name another folder"),
}


@pytest.mark.parametrize("name", PROVISION_MISTAKES)
def test_a_mistake_at_provision_is_one_sentence(provisioner: Command, name: str) -> None:
    spoil, complaint = PROVISION_MISTAKES[name]
    hidden = provisioner.secrets()
    spoil(provisioner)
    assert_one_sentence(provisioner.run(provisioner.provision()), complaint, hidden)


def test_an_empty_name_never_stands_for_the_folder_one_is_in(
    command: Command, provisioner: Command, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    Bucket(here).reset(["logs/1", "secrets/root.key"])
    for commanded, given in (
        (command.serve(), "--bucket"),
        (command.serve(), "--credentials"),
        (provisioner.provision(), "--credentials"),
    ):
        line = [*commanded, given, ""]
        done = subprocess.run(line, cwd=here, env=provisioner.env, capture_output=True, text=True, timeout=60)
        assert_one_sentence(done, f"argument {given}: an empty name would be the folder you are in", [])
        assert done.returncode == 2
        assert Bucket(here).keys() == ["logs/1", "secrets/root.key"]
        assert len(list(here.iterdir())) == 2


FULL = r"labkit: The output cannot be written \(No space left on device\): give a place for it\.\n"


def redirected(line: list[str], to: str) -> list[str]:
    return ["sh", "-c", f'exec "$@" {to}', "sh", *line]


def test_an_output_that_cannot_be_written_is_one_sentence_and_a_failure(command: Command, provisioner: Command) -> None:
    for own, line in ((command, command.serve()), (provisioner, provisioner.provision())):
        done = own.run(redirected(line, ">/dev/full"))
        assert re.fullmatch(FULL, done.stderr), done
        assert (done.returncode, done.stdout) == (1, "")
        done = own.run(redirected(line, ">/dev/full 2>/dev/full"))
        assert (done.returncode, done.stdout, done.stderr) == (1, "", ""), "nor can that be told"


def test_complaints_that_nobody_can_read_are_failures_all_the_same(command: Command) -> None:
    command.arguments = ["--role", "nobody"]
    for to in ("2>/dev/full", "2>&-", ">&- 2>&-"):
        done = command.run(redirected(command.serve(), to))
        assert (to, done.returncode, done.stdout, done.stderr) == (to, 1, "", "")


def test_who_closes_the_output_gets_the_work_done_in_silence(command: Command, provisioner: Command) -> None:
    done = provisioner.run(redirected(provisioner.provision(), ">&-"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(provisioner.secret_ids()) == len(provision.roles())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command.arguments = ["--port", str(port)]
    process = subprocess.Popen(redirected(command.serve(), ">&-"), env=command.env, stderr=subprocess.PIPE, text=True)
    try:

        def answers() -> bool:
            assert process.poll() is None
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
                return True
            return False

        eventually(answers, "it serves")
        assert purge(f"http://127.0.0.1:{port}/mcp", command.bucket)[0][1] == "Purged 2 object(s): logs/1, …"
        process.terminate()
        assert process.wait(timeout=30) == 0
        assert process.stderr is not None
        # It logs why it refused the altered state of that purge, and nothing else.
        assert len(process.stderr.read().splitlines()) == 1
    finally:
        process.kill()
        process.communicate()


def test_the_ttl_is_that_of_the_state_and_of_the_claim(own_lab: Lab, tmp_path: Path) -> None:
    for role in ("ring-reader", "confirmations"):
        credentials.hand_out(own_lab.admin, role, tmp_path / "credentials")
    command = Command(own_lab, tmp_path / "credentials", tmp_path / "bucket", ["--ttl", "1"], environment(own_lab))
    Bucket(command.bucket).reset(["logs/1"])
    codec = RequestStateSecurity(keys=load_key_ring(own_lab.client("ring-reader"))).codec

    async def too_late(url: str) -> tuple[str, float]:
        async with wire.over_http(url) as (client, _):
            question = await attacks.ask(client, "logs/")
            sealed = json.loads(codec.unseal(question.state))
            await asyncio.to_thread(eventually, lambda: time.time() > sealed["exp"], "the state is too old")
            return await attacks.verdict(attacks.confirm(client, question)), sealed["exp"] - sealed["iat"]

    with serving(command) as replica:
        parked = len(own_lab.audit_records())
        said, lifetime = asyncio.run(too_late(replica.url))
        assert said == "error -32602: Invalid or expired requestState"
        assert lifetime == pytest.approx(1)
        eventually(lambda: "requestState rejected on tools/call: expired" in replica.said(), "the reason is logged")
    assert Bucket(command.bucket).keys() == ["logs/1"]
    answers = [record["response"] for record in own_lab.audit_records()[parked:] if record["type"] == "response"]
    assert [answer["wrap_info"]["ttl"] for answer in answers if "wrap_info" in answer] == [1]


def test_a_replica_that_recovers_finishes_what_it_finds_and_logs_what_is_no_operation_without_its_content(
    spoiled: Command,
) -> None:
    objects, ledger = Bucket(spoiled.bucket), Ledger(spoiled.lab.client("ledger"))
    objects.reset(["logs/1", "logs/2", "logs/3", "secrets/root.key"])
    plan = {"tool": TOOL, "arguments": {"prefix": "logs/"}, "principal": None, "keys": ["logs/1", "logs/2"]}
    plan["bucket"] = objects.name
    begun, planned = (secrets.token_hex(16) for _ in range(2))
    ledger.plan(planned, {**plan, "keys": ["logs/3"]})
    ledger.plan(begun, plan)
    ledger.begin(begun, plan)
    spoiled.lab.admin.secrets.kv.v2.create_or_update_secret(
        f"{OPERATIONS}/{'0' * 32}", {"state": "executing", "plan": "hidden"}, mount_point="secret"
    )
    spoiled.arguments = ["--recover-after", "1"]
    with serving(spoiled) as replica:
        eventually(lambda: ledger.read(begun).state == "done", "it finishes what was begun")
        assert objects.keys() == ["logs/3", "secrets/root.key"]
        assert ledger.read(planned).state == "planned"
        eventually(lambda: "finished 1 purge(s) that had been begun" in replica.said(), "it says so")
        assert f"What lies at secret/{OPERATIONS}/{'0' * 32} is no operation" in replica.said()
        said, _ = purge(replica.url, spoiled.bucket)
        assert said[1] == "Purged 2 object(s): logs/1, …"
        replica.process.send_signal(signal.SIGTERM)
        assert replica.process.wait(timeout=30) == 0
        for secret in [*spoiled.secrets(), "hidden", "logs/", "Traceback"]:
            assert secret not in replica.said()
    assert [ledger.read(name).state for name in ledger.names() if name != "0" * 32].count("done") == 2
    assert ledger.read(planned).state == "planned"


def test_a_secret_id_lets_nobody_in_for_longer_than_a_day(provisioner: Command) -> None:
    assert provisioner.run(provisioner.provision()).returncode == 0
    approle = provisioner.lab.admin.auth.approle
    for role in provision.roles():
        _, secret_id = credentials.read(role, provisioner.folder)
        assert approle.read_role(role)["data"]["secret_id_ttl"] == 24 * 60 * 60
        assert approle.read_secret_id(role, secret_id)["data"]["secret_id_ttl"] == 24 * 60 * 60
