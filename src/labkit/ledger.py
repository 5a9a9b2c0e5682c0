"""The durable ledger of operations, so that what a server began and did not finish is known after its end."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import hvac
import hvac.exceptions

from labkit.clock import now
from labkit.errors import LabError, outage, part

logger = logging.getLogger(__name__)

OPERATIONS = "mcp/operations"
"""Where the operations lie in the KV v2 mount `secret/`."""
_STATES = {"planned": 1, "executing": 2, "done": 3}  # each is one version in KV, so a check-and-set is the whole rule
_NAME = re.compile(r"[0-9a-f]{32}", re.ASCII)


class NotPlanned(Exception):
    """The operation is not there to be begun: it was begun before, is over, or was never planned."""


class InvalidOperation(LabError):
    """What lies in the ledger is no operation. The message names where, and nothing of what it holds."""


@dataclass(frozen=True)
class Operation:
    """One operation as it lies in the ledger.

    Attributes:
        name: 32 hexadecimal digits.
        state: "planned", "executing" or "done".
        plan: what was confirmed, or may still be.
        age: seconds since it came into this state, by OpenBao's clock.
    """

    name: str
    state: str
    plan: dict[str, Any] = field(repr=False)
    age: float


class Ledger:
    """Operations in KV v2, each planned, then executing, then done, one step at a time and none twice.

    A step is a write that names the version it follows (check-and-set), so of several servers at once, one takes it.
    What is planned is executed by nobody but the server whose user confirmed it. What is executing was confirmed, so
    any server may finish it.

    Source: OpenBao documentation, "KV v2", "Check-and-Set".
    """

    def __init__(self, client: hvac.Client, path: str = OPERATIONS) -> None:
        """Keep operations below `path` in the mount `secret/`; `client` needs the role `ledger`."""
        self._client = client
        self._path = path
        self._done: set[str] = set()  # names that need not be read again, as what is done stays so

    def plan(self, name: str, plan: dict[str, Any]) -> None:
        """Write down what is to be confirmed, before anybody is asked.

        Args:
            name: of the operation, 32 hexadecimal digits, chosen at random.
            plan: any JSON object, small enough for `SingleUse.issue`.

        Raises:
            NotPlanned: there is an operation of this name.
            OpenBaoUnavailable: OpenBao is away, or refuses our token.
        """
        self._write(name, "planned", plan)

    def begin(self, name: str, plan: dict[str, Any]) -> None:
        """Note that the plan was confirmed and is being executed. From then on, it will be finished by somebody.

        Raises:
            NotPlanned: it was begun before, is over, or was never planned.
            OpenBaoUnavailable: OpenBao is away, or refuses our token. It may have been noted all the same.
        """
        self._write(name, "executing", plan)

    def finish(self, name: str, plan: dict[str, Any]) -> None:
        """Note that everything in the plan is done. That somebody else has noted it already is as good.

        Raises:
            NotPlanned: it was never begun.
            OpenBaoUnavailable: OpenBao is away, or refuses our token.
        """
        try:
            self._write(name, "done", plan)
        except NotPlanned:
            if self.read(name).state != "done":
                raise

    def read(self, name: str) -> Operation:
        """Return the operation of this name.

        Raises:
            NotPlanned: there is none.
            InvalidOperation: what lies there is none.
            OpenBaoUnavailable: OpenBao is away, or refuses our token.
        """
        where = self._where(name)
        try:
            with outage("reading an operation", passing=(hvac.exceptions.InvalidPath,)):
                secret = part(
                    self._client.secrets.kv.v2.read_secret_version(
                        where, mount_point="secret", raise_on_deleted_version=True
                    ),
                    "data",
                )
                asked = now(self._client)
        except hvac.exceptions.InvalidPath:
            raise NotPlanned(f"there is no operation {name}") from None
        try:
            state, plan = secret["data"]["state"], json.loads(secret["data"]["plan"])
            since = datetime.fromisoformat(secret["metadata"]["created_time"]).timestamp()
            if _STATES[state] != secret["metadata"]["version"] or not isinstance(plan, dict):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InvalidOperation(
                f"What lies at secret/{where} is no operation: look at who wrote it, and remove it."
            ) from None
        return Operation(name, state, plan, max(0.0, asked - since))

    def names(self) -> list[str]:
        """Return the names of all operations, whatever their state.

        Raises:
            OpenBaoUnavailable: OpenBao is away, or refuses our token.
        """
        try:
            with outage("listing operations", passing=(hvac.exceptions.InvalidPath,)):
                answer = self._client.secrets.kv.v2.list_secrets(self._path, mount_point="secret")
                return [name for name in part(part(answer, "data"), "keys") if _NAME.fullmatch(name)]
        except hvac.exceptions.InvalidPath:
            return []

    def unfinished(self, after: float) -> Iterator[Operation]:
        """Yield the operations that have been executing for `after` seconds or more.

        What is no operation is logged and passed over.

        Raises:
            OpenBaoUnavailable: OpenBao is away, or refuses our token.
        """
        for operation in self._all(skip=self._done):
            if operation.state == "done":
                self._done.add(operation.name)
            elif operation.state == "executing" and operation.age >= after:
                yield operation

    def forget(self, keep: float, *, unconfirmed: float = 600) -> int:
        """Remove what is long done, and what was never confirmed; return how many they were.

        Args:
            keep: seconds since it was done.
            unconfirmed: seconds since it was planned; longer than any claim lives, or what is still open will be
                refused.

        Raises:
            OpenBaoUnavailable: OpenBao is away, or refuses our token.
        """
        after = {"done": keep, "planned": unconfirmed, "executing": math.inf}
        gone = [each for each in self._all(skip=set()) if each.age >= after[each.state]]
        for operation in gone:
            with outage("forgetting an operation"):
                self._client.secrets.kv.v2.delete_metadata_and_all_versions(
                    self._where(operation.name), mount_point="secret"
                )
        return len(gone)

    def _all(self, skip: set[str]) -> Iterator[Operation]:
        for name in self.names():
            if name in skip:
                continue
            try:
                yield self.read(name)
            except NotPlanned:
                continue  # forgotten meanwhile
            except InvalidOperation as error:
                logger.error("%s", error)

    def _write(self, name: str, state: str, plan: dict[str, Any]) -> None:
        # The plan as one string: OpenBao refuses JSON of more than 1,000 strings as too complex.
        record = {"state": state, "plan": json.dumps(plan)}
        try:
            with outage("writing an operation down", passing=(hvac.exceptions.InvalidRequest,)):
                self._client.secrets.kv.v2.create_or_update_secret(
                    self._where(name), record, cas=_STATES[state] - 1, mount_point="secret"
                )
        except hvac.exceptions.InvalidRequest as error:
            if "check-and-set" in str(error):
                raise NotPlanned(f"the operation {name} cannot become {state}") from None
            with outage("writing an operation down"):
                raise

    def _where(self, name: str) -> str:
        if not _NAME.fullmatch(name):  # a name is no path
            raise NotPlanned("that is no name of an operation")
        return f"{self._path}/{name}"
