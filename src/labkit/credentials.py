"""AppRole credentials as files in one folder a server: never in arguments, never readable by others."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import hvac
import hvac.exceptions

from labkit import provision
from labkit.errors import LabError, outage, said
from labkit.openbao import find


def main(folder: Path) -> int:
    """Provision the namespace at `BAO_ADDR` with `BAO_TOKEN`, and write every role's credentials to `folder`.

    Returns:
        0 when all is written.

    Raises:
        LabError: a setting is missing, OpenBao or the folder does not allow it.
        OpenBaoUnavailable: OpenBao is away.
    """
    server = find()
    if server is None or not server.token:
        raise LabError("BAO_ADDR and BAO_TOKEN are needed: export both, as `python -m labkit up` prints them.")
    admin = server.client(server.namespace, token=server.token)
    try:
        with outage("provisioning", passing=(LabError, hvac.exceptions.VaultError)):
            provision.provision(admin)
            for role in provision.roles():
                hand_out(admin, role, folder)
    except hvac.exceptions.VaultError as error:
        raise LabError(
            f"OpenBao at {server.address} does not provision the namespace {server.namespace or 'root'} "
            f"({said(error)}): check its status, BAO_NAMESPACE, and that BAO_TOKEN administers it."
        ) from None
    print(f"{' '.join(str(folder).split())}: credentials of {', '.join(provision.roles())}")
    return 0


def hand_out(admin: hvac.Client, role: str, folder: Path) -> None:
    """Write the role-id and a new secret-id of `role` into `folder`, which is made if need be, each file 0600.

    Args:
        admin: may read role-ids and generate secret-ids.
        role: a name from `openbao/policies/`.
        folder: becomes 0700 if it is made here.

    Raises:
        LabError: there is no such role, or the folder cannot be written.
    """
    role_id, secret_id = provision.credentials(admin, role)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for kind, text in (("role-id", role_id), ("secret-id", secret_id)):
            path = folder / f"{role}.{kind}"
            path.unlink(missing_ok=True)  # what is there may be open to others, or a link
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text + "\n")
    except OSError as error:
        raise LabError(f"Credentials cannot be written to {folder} ({error.strerror}): name another folder.") from None


def read(role: str, folder: Path) -> tuple[str, str]:
    """Return (role-id, secret-id) of `role` from `folder`.

    Raises:
        LabError: a file is missing, empty, no text, or readable by others.
    """
    return _one(folder / f"{role}.role-id"), _one(folder / f"{role}.secret-id")


def _one(path: Path) -> str:
    try:
        # Without waiting: a pipe in its place would never be opened.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), encoding="ascii") as file:
            # Of the open file and not of the path, which may be another one by now.
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
                raise LabError(
                    f"{path} can be read by others: destroy that secret-id, and let `python -m labkit provision` write "
                    "another one."
                )
            text = file.read(1000).strip() if stat.S_ISREG(mode) else ""
    except OSError as error:
        raise LabError(
            f"{path} cannot be read ({error.strerror}): name the folder and a role that `python -m labkit provision` "
            "wrote, or let it write there."
        ) from None
    except UnicodeError:
        text = ""
    if not text or not text.isprintable():
        raise LabError(f"{path} holds no credential: let `python -m labkit provision` write it anew.")
    return text
