"""Rotate the Transit key in two steps that turn no honest user away."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

import hvac
import hvac.exceptions

from labkit.clock import now
from labkit.errors import outage, part
from labkit.provision import TRANSIT_KEY
from labkit.rotation import BREAKS, RotationRefused, in_range


@dataclass(frozen=True)
class TransitState:
    """The versions of a Transit key.

    Attributes:
        latest: the version that seals.
        oldest: the oldest version that still unseals.
        wait: whole seconds until everything below `latest` may be retired, by OpenBao's clock; 0 when it may.
        earliest: when that is.
    """

    latest: int
    oldest: int
    wait: int
    earliest: datetime


class TransitRotation:
    """The Transit key's own rotation. All versions lie in one place, so there is no replica to wait for.

    Source: OpenBao documentation, "Transit", "Rotate key", "Update key configuration".
    """

    def __init__(self, client: hvac.Client, key: str = TRANSIT_KEY, *, ttl: float = 120) -> None:
        """Rotate the Transit key named `key`; `client` needs the role `ring-operator`.

        Args:
            client: may read, rotate and configure the key.
            key: its name.
            ttl: the longest time, in seconds, that any server with this key lets a round take.

        Raises:
            ValueError: `ttl` is negative, or longer than a day.
        """
        self._client = client
        self._transit = client.secrets.transit
        self._key = key
        self._ttl = in_range("ttl", ttl)

    def read(self) -> TransitState:
        """Return the versions, and when the old ones may go.

        Raises:
            RotationRefused: there is no such key.
            OpenBaoUnavailable: OpenBao is away, or refuses our token.
        """
        try:
            with outage(f"reading the Transit key {self._key}", passing=(hvac.exceptions.InvalidPath,)):
                key = part(self._transit.read_key(self._key), "data")
                latest, oldest = int(key["latest_version"]), max(1, int(key["min_decryption_version"]))
                earliest = int(key["keys"][str(latest)]) + self._ttl + 1  # it tells its second and not the fraction
                asked = now(self._client)
        except hvac.exceptions.InvalidPath:
            raise RotationRefused(f"There is no Transit key {self._key}: name one that exists.") from None
        return TransitState(
            latest=latest,
            oldest=oldest,
            wait=max(0, math.ceil(earliest - asked)),
            earliest=datetime.fromtimestamp(earliest, UTC),
        )

    def rotate(self) -> TransitState:
        """Make a new version, which seals from now on. Returns the versions as they then are.

        Raises:
            RotationRefused, OpenBaoUnavailable: as for `read`.
        """
        self.read()
        with outage(f"rotating the Transit key {self._key}"):
            self._transit.rotate_key(self._key)
        return self.read()

    def retire(self, *, force: bool = False) -> TransitState:
        """Refuse to unseal with any version but the latest. Returns the versions as they then are.

        Nothing is destroyed, and the role that does this can undo it. `transit/keys/<key>/trim`, by an administrator
        and with `min_encryption_version` set first, is final.

        Args:
            force: do it even where it is too early, and rounds that were sealed with an older version are still open.

        Raises:
            RotationRefused: there is nothing to retire, or it is too early.
            OpenBaoUnavailable: as for `read`.
        """
        state = self.read()
        if state.oldest == state.latest:
            raise RotationRefused(
                f"Version {state.latest} of the Transit key {self._key} is the only one in use: rotate it first."
            )
        if state.wait and not force:
            raise RotationRefused(
                f"It is too early to retire what is below version {state.latest} of the Transit key {self._key}: wait "
                f"{state.wait} s, until {state.earliest:%H:%M:%S} UTC; until then it would break {BREAKS['retire']}."
            )
        with outage(f"retiring versions of the Transit key {self._key}"):
            self._transit.update_key_configuration(self._key, min_decryption_version=state.latest)
        return self.read()
