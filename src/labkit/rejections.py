"""Rejections at the boundary, counted by reason, for Prometheus."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from labkit.errors import LabError

REASONS = (
    "malformed",
    "unknown key",
    "seal",
    "codec error",
    "non-string requestState",
    "minted in the future",
    "expired",
    "request binding",
    "audience",
    "principal",
    "principal drift",
    "principal binding error",
    "other",
)
"""The values that the label can have. Whatever else is logged counts as "other": a codec chooses its own words, and
a label that an attacker could choose would make a time series for each of them."""
_NAME = "mcp_request_state_rejections"
_LOGGER = "mcp.server.request_state"


class Rejections(logging.Handler, Collector):
    """Counts what the SDK's boundary writes to its log; the message to the client stays the same for all reasons.

    A context manager: it counts inside the block. It is a logging handler, and a collector for any Prometheus
    registry. "codec error" is for an alarm about OpenBao, and the others are for one about attackers; "expired" and
    "unknown key" also come with slow users and with rotations.

    Source: SDK, `mcp.server.request_state`; Prometheus documentation, "Metric and label naming".
    """

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()
        self._counting = threading.Lock()  # logging's own lock does not cover whoever reads
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def emit(self, record: logging.LogRecord) -> None:
        # Of the lines of this logger, only a rejection has the method and the reason as its arguments.
        if record.levelno == logging.WARNING and isinstance(record.args, tuple) and len(record.args) == 2:
            reason = str(record.args[1])
            with self._counting:
                self._counts[reason if reason in REASONS else "other"] += 1

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the one counter, with every reason from the beginning, so that the first rejection is an increase."""
        family = CounterMetricFamily(_NAME, "Rounds that the requestState boundary refused.", labels=["reason"])
        with self._counting:
            counts = dict(self._counts)
        for reason in REASONS:
            family.add_metric([reason], counts.get(reason, 0))
        yield family

    def text(self) -> str:
        """Return the counts in Prometheus' text format, as an endpoint `/metrics` serves them."""
        return generate_latest(self.registry).decode()

    def __enter__(self) -> Rejections:
        """Begin to count.

        Raises:
            LabError: the SDK's warnings are switched off, so there would be nothing to count.
        """
        logger = logging.getLogger(_LOGGER)
        if not logger.isEnabledFor(logging.WARNING):
            raise LabError(f"The logger {_LOGGER} is above WARNING, so nothing would be counted: lower its level.")
        logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger(_LOGGER).removeHandler(self)
