"""A key ring that is fit to seal with, and a replica that follows it."""

from __future__ import annotations

from mutants.mutant import CODEC, LIVE, RING, SHARED, Mutant

SPOILED = "tests/test_key_ring.py::test_a_spoiled_ring_in_kv_is_refused_and_no_key_is_shown"
LAST_GOOD = "tests/test_live_ring.py::test_the_last_good_ring_is_used_loudly_up_to_max_stale_and_then_refused"
STALE = "tests/test_live_ring.py::test_staleness_counts_from_before_the_question"
OLDER = "tests/test_live_ring.py::test_a_ring_that_is_older_than_the_one_in_use_is_not_taken_and_gives_no_time"

RINGS = [
    Mutant("ring: hexadecimal only", RING, "if not _HEX.fullmatch(entry) or len(entry) % 2:", "if False:", SHARED),
    Mutant("ring: whole bytes", RING, " or len(entry) % 2:", ":", SPOILED),
    Mutant("ring: no line end", RING, 'return text.split(",")', 'return text.strip().split(",")', SHARED),
    Mutant("ring: at least 32 bytes", RING, "if len(key) < _MIN_BYTES:", "if False:", SHARED),
    Mutant("ring: no key twice", RING, "    if key in ring:\n", "    if False:\n", SHARED),
    Mutant(
        "ring: no message repeats a key",
        RING,
        "line ends allowed): write it anew.",
        "line ends allowed): write {entry} anew.",
        SPOILED,
    ),
    Mutant(
        "envelope ring: no key in plain text",
        RING,
        "        if not _CIPHERTEXT.fullmatch(entry):\n",
        "        if _HEX.fullmatch(entry):\n"
        "            _append(ring, bytes.fromhex(entry), path)\n"
        "            continue\n"
        "        if not _CIPHERTEXT.fullmatch(entry):\n",
        CODEC,
    ),
    Mutant(
        "envelope ring: what is no ciphertext is sent nowhere",
        RING,
        "        if not _CIPHERTEXT.fullmatch(entry):\n",
        "        if False:\n",
        "tests/test_key_ring.py::test_no_key_can_be_planted_in_kv_and_none_is_shown",
    ),
    Mutant(
        "live ring: a stale one does not seal",
        LIVE,
        "if _clock(_CLOCK) < self._until:\n            return self._codec.seal(",
        "if True:\n            return self._codec.seal(",
        LAST_GOOD,
    ),
    Mutant(
        "live ring: a stale one does not unseal",
        LIVE,
        "if _clock(_CLOCK) < self._until:\n            return self._codec.unseal(",
        "if True:\n            return self._codec.unseal(",
        LAST_GOOD,
    ),
    Mutant(
        "live ring: time from before the question",
        LIVE,
        "        until = _clock(_CLOCK) + _USED * self._max_stale\n"
        "        secret = read_ring(self._client, self._path)\n",
        "        secret = read_ring(self._client, self._path)\n"
        "        until = _clock(_CLOCK) + _USED * self._max_stale\n",
        STALE,
    ),
    Mutant("live ring: room for a slow write", LIVE, "    0.9  #", "    1.0  #", STALE),
    Mutant(
        "live ring: no older version",
        LIVE,
        "if version < self._version:",
        "if False:",
        OLDER,
    ),
    Mutant(
        "live ring: a change is followed",
        LIVE,
        "if keys != self._keys:",
        "if not self._keys:",
        OLDER,
    ),
    Mutant(
        "live ring: no time without end",
        LIVE,
        "if not 0 < max_stale <= 86_400:",
        "if not 0 < max_stale:",
        "tests/test_live_ring.py::test_a_time_that_cannot_be_is_turned_down",
    ),
    Mutant(
        "live ring: a closed one refuses",
        LIVE,
        "            self._closed = True\n            self._until = -math.inf\n",
        "            self._closed = True\n",
        "tests/test_live_ring.py::test_one_thread_follows_and_it_goes_with_close_or_with_the_ring",
    ),
    Mutant(
        "live ring: a closed one is not opened by a late answer",
        LIVE,
        "            if self._closed:\n                return\n            if version",
        "            if version",
        "tests/test_live_ring.py::test_a_read_that_was_under_way_does_not_open_a_closed_ring",
    ),
    Mutant(
        "live ring: follows on, whatever comes",
        LIVE,
        "with contextlib.suppress(Exception):  # whatever",
        "with contextlib.suppress(LabError):  # whatever",
        "tests/test_live_ring.py::test_a_follower_lives_on_when_its_log_cannot_be_written",
    ),
    Mutant(
        "live ring: whatever keeps it from reading is said",
        LIVE,
        "except Exception as error:",
        "except LabError as error:",
        "tests/test_live_ring.py::test_a_follower_lives_on_whatever_comes",
    ),
]
