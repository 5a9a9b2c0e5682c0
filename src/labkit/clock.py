"""OpenBao's clock: what replicas and operators go by, whatever their own clocks say."""

from __future__ import annotations

import hvac
from hvac.adapters import JSONAdapter

from labkit.errors import part


def now(client: hvac.Client) -> int:
    """Return the time by OpenBao's clock, in whole seconds. It tells no fraction, so it is never ahead of the real one.

    Raises what `hvac` and `requests` raise, so it is called inside `labkit.errors.outage`.

    Source: OpenBao documentation, "/sys/health".
    """
    # The health of a server is asked for outside of any namespace, and without a token.
    adapter = JSONAdapter.from_adapter(client.adapter)
    adapter.namespace, adapter.token = None, None
    return int(part(adapter.get("/v1/sys/health?standbyok=true"), "server_time_utc"))
