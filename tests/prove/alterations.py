"""Ways to alter a sealed `requestState`: what an attacker, a proxy or a typo makes of one, by a seeded chance."""

from __future__ import annotations

import base64
import random
import unicodedata
from collections.abc import Callable
from typing import Any

from mcp.server.request_state import AESGCMRequestStateCodec

LONGEST = 1 << 20  # characters
BASE64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
PREFIXES = ["", "v1", "v1:", "V1.", "v2.", "v0.", "v01.", "v1..", "v 1.", "v+1.", "v1.v1.", "v1.0.", "v.1.", ".", "1."]
PREFIXES += [
    "v１.",
    "v1．",
    "ｖ1.",
    "v١.",
    "\ufeffv1.",
    "\x00v1.",
    "\ufeffvault:v1:",
    "\x00vault:v1:",
    "vault：v1：",
    "vaᴜlt:v1:",
]
PREFIXES += [
    "vault:v1:",
    "vault:v01:",
    "vault:v0:",
    "vault:v+1:",
    "vault:v-1:",
    "vault:v2:",
    "vault:v1.0:",
    "vault:v0x1:",
]
PREFIXES += [
    "vault:v1e0:",
    "vault:v١:",
    "vault:v１:",
    "vault:v¹:",
    "vault:v999999999:",
    f"vault:v{'9' * 300}:",
    "vault:v1",
]
PREFIXES += [
    "Vault:v1:",
    "VAULT:V1:",
    "vault:V1:",
    "vault :v1:",
    "vault:1:",
    "vault::",
    "vault:",
    "vault:v1::",
    "bao:v1:",
]
PREFIXES += ["vault:v1:vault:v1:", "vault%3Av1%3A", "vault:v9999999999:", "vault:v1.", "v1.vault:v1:", "vault:v1:v1."]
WHITE = [*" \t\n\r\v\f\x1c\x85\xa0\u1680\u2003\u2028\u2029\u3000", "\r\n"]
UNSEEN = "\x00\x1b\x7f\u00ad\u034f\u200b\u200d\u202e\u2060\ufe0f\ufeff\U000e0061"
LOOKALIKES = dict(zip("aceopsxyijvABCEHIKMOPTXYZl10-_", "асеорѕхуіјѵАВСЕНІКМОРТХУΖⅼ１０‐＿", strict=True))
DIGITS = [
    0xFF10,
    0x660,
    0x966,
    0x1D7CE,
    0x1D7D8,
    0x2080,
]  # fullwidth, Arabic, Devanagari, bold, double-struck, subscript
NUMBERS = [0, 1, -1, 7, 0.0, 1.5, -0.0, 1e308, 2**53, 2**63, 10**400]
OTHERS = [True, False, [], {}, [[]], [None], [{}], {"": ""}, [0] * 1000]
_STRANGER = AESGCMRequestStateCodec([b"a key that is in nobody's ring..."])

Chance = random.Random
Alteration = Callable[[Chance, str, str], Any]


def halves(token: str) -> tuple[str, str]:
    """The prefix, with its mark, and the body."""
    cut = token.rindex(":" if ":" in token else ".") + 1
    return token[:cut], token[cut:]


def raw(token: str) -> bytes:
    body = halves(token)[1]
    return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))


def spelled(token: str, data: bytes) -> str:
    """`data` in the one spelling that a codec reads, behind the prefix of `token`: only the seal can tell."""
    return halves(token)[0] + base64.urlsafe_b64encode(data).decode().rstrip("=")


def inserted(chance: Chance, token: str, what: str) -> str:
    at = chance.choice([0, len(token), chance.randrange(len(token)), len(halves(token)[0])])
    return token[:at] + what + token[at:]


def bit_of_the_text(chance: Chance, token: str, _: str) -> str:
    at = chance.randrange(len(token))
    return token[:at] + chr(ord(token[at]) ^ 1 << chance.randrange(7)) + token[at + 1 :]


def bit_of_the_bytes(chance: Chance, token: str, _: str) -> str:
    data = bytearray(raw(token))
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return spelled(token, bytes(data))


def one_character(chance: Chance, token: str, _: str) -> str:
    at = chance.randrange(len(token))
    return token[:at] + chance.choice(BASE64URL) + token[at + chance.randrange(2) :]


def cut(chance: Chance, token: str, _: str) -> str:
    start, end = sorted(chance.choices(range(len(token) + 1), k=2))
    return chance.choice([token[:end], token[start:], token[:start] + token[end:], token[:-1], token[1:]])


def bytes_cut(chance: Chance, token: str, _: str) -> str:
    data = raw(token)
    at, end = chance.randrange(len(data)), chance.choice([16, 28, 32])
    return spelled(
        token, chance.choice([data[:at], data[at:], data[:end], data[:-16], data[:-1], data[:at] + data[at + 1 :]])
    )


def extended(chance: Chance, token: str, _: str) -> str:
    more = "".join(chance.choices(BASE64URL, k=chance.randint(1, 40)))
    more = chance.choice(
        [more, halves(token)[1], token, "A", "AAAA", token[-4:], ".", ":", "," + token, "&a=b", "'--", "%00"]
    )
    return chance.choice([token + more, inserted(chance, token, more)])


def bytes_extended(chance: Chance, token: str, _: str) -> str:
    data, more = raw(token), chance.randbytes(chance.randint(1, 32))
    return spelled(token, chance.choice([data + more, data + bytes(16), data + data, more + data, data + data[-16:]]))


def spliced(chance: Chance, token: str, other: str) -> str:
    at = chance.randrange(1, min(len(token), len(other)))
    return chance.choice([token[:at] + other[at:], other[:at] + token[at:], token[: len(token) // 2] + other[-at:]])


def bytes_spliced(chance: Chance, token: str, other: str) -> str:
    one, two = raw(token), raw(other)
    at = chance.choice([4, 12, 16, len(one) - 16, chance.randrange(len(one))])  # where kid, nonce, tag begin or end
    mixed = bytes(a ^ b for a, b in zip(one, two, strict=False))
    return spelled(token, chance.choice([one[:at] + two[at:], two[:at] + one[at:], one[:-16] + two[-16:], mixed]))


def shuffled(chance: Chance, token: str, _: str) -> str:
    prefix, body = halves(token)
    i, j = chance.randrange(len(body)), chance.randrange(len(body))
    swapped = list(body)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    return prefix + chance.choice(["".join(swapped), body[::-1], body[i:] + body[:i]])


def other_prefix(chance: Chance, token: str, other: str) -> str:
    return chance.choice(PREFIXES) + halves(chance.choice([token, other]))[1]


def other_case(chance: Chance, token: str, _: str) -> str:
    prefix, body = halves(token)
    at = chance.randrange(len(body))
    one = body[:at] + body[at].swapcase() + body[at + 1 :]
    return chance.choice(
        [
            prefix + one,
            prefix.swapcase() + body,
            prefix.title() + body,
            prefix + body.swapcase(),
            token.upper(),
            token.lower(),
        ]
    )


def lookalike(chance: Chance, token: str, _: str) -> str:
    at = chance.choice([at for at, c in enumerate(token) if c in LOOKALIKES or c.isdigit()])
    digits = [chr(base + int(token[at])) for base in DIGITS] if token[at].isdigit() else []
    wide = chr(ord(token[at]) + 0xFEE0)
    twin = chance.choice([wide, LOOKALIKES.get(token[at], wide), *digits])
    return token[:at] + twin + token[at + 1 :]


def unicode_noise(chance: Chance, token: str, _: str) -> str:
    what = chance.choice(
        [
            *UNSEEN,
            chr(chance.randint(0x300, 0x36F)),
            chr(chance.randint(0xD800, 0xDFFF)),
            chr(chance.randint(0x80, 0xD7FF)),
        ]
    )
    noisy = inserted(chance, token, what)
    return chance.choice(
        [noisy, unicodedata.normalize(chance.choice(["NFC", "NFKD"]), noisy + "é"), noisy + "\udc80\ud800"]
    )


def whitespace(chance: Chance, token: str, _: str) -> str:
    white = chance.choice(WHITE)
    wrapped = white.join(token[at : at + 76] for at in range(0, len(token), 76))
    return chance.choice([inserted(chance, token, white * chance.randint(1, 3)), wrapped, token + white, white + token])


def padding(chance: Chance, token: str, _: str) -> str:
    right = "=" * (-len(halves(token)[1]) % 4)
    pad = chance.choice([right or "=", "=", "==", "===", "====", "=" * 9, "%3D", "=A", "=\n", "＝", "%3d%3d"])
    return chance.choice([token + pad, token + pad, inserted(chance, token, pad)])


def last_character(chance: Chance, token: str, _: str) -> str:
    """One that decodes to the same bytes where there is one; a lenient decoder takes it for the same token."""
    last = BASE64URL.index(token[-1])
    unused = (0, 0, 16, 4)[len(halves(token)[1]) % 4]  # how many values the bits that nobody reads can take
    return token[:-1] + BASE64URL[last - last % unused + chance.randrange(unused) if unused else chance.randrange(64)]


def other_alphabet(chance: Chance, token: str, _: str) -> str:
    prefix, body = halves(token)
    data = raw(token)
    standard = base64.b64encode(data).decode()
    spellings = [
        standard,
        standard.rstrip("="),
        data.hex(),
        base64.b32encode(data).decode(),
        base64.b85encode(data).decode(),
    ]
    twice = base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")
    odd = [twice, body.translate(str.maketrans("-_", "+/")), body.translate(str.maketrans("-_", ".~")), f'"{body}"']
    at = chance.randrange(len(token))
    escaped = [token[:at] + form % ord(token[at]) + token[at + 1 :] for form in ("%%%02X", "\\u%04x", "&#%d;")]
    return chance.choice([*(prefix + text for text in spellings + odd), *escaped])


def anything(chance: Chance, token: str, _: str) -> str:
    data = chance.randbytes(chance.choice([0, 1, 27, 28, 31, 32, 48, len(raw(token))]))
    text = "".join(map(chr, chance.choices(range(0x20, 0x3000), k=chance.randint(0, 400))))
    return chance.choice(
        [spelled(token, data), spelled(token, raw(token)[:4] + data), text, halves(token)[0] + text, ""]
    )


def sealed_by_a_stranger(_: Chance, token: str, __: str) -> str:
    """The format is public: a state that somebody sealed with a key of their own, under the id of ours."""
    return spelled(token, raw(token)[:4] + raw(_STRANGER.seal(b'{"v":1}' * 30))[4:])


def huge(chance: Chance, token: str, _: str) -> str:
    size = chance.randint(1 << 16, LONGEST)
    data = chance.randbytes(size * 3 // 4 - 32)
    wide = chance.choice(["A", "=", " ", "\x00", "é", "𝄞", ":", "v1."])
    grown = (token + wide * size)[:size]
    return chance.choice(
        [spelled(token, data), spelled(token, raw(token) + data)[:size], grown, (token * (size // len(token)))[:size]]
    )


def no_text(chance: Chance, token: str, other: str) -> Any:
    """JSON that is no string. (Null is none of these: to the specification, it is as good as absent.)"""
    held = [[token], [token, other], {"requestState": token}, {token: None}, list(token), [[[token]]], list(raw(token))]
    return chance.choice([*NUMBERS, *OTHERS, *held, chance.randint(-(10**20), 10**20), chance.random()])


RARE: list[Alteration] = [huge]
COMMON: list[Alteration] = [bit_of_the_text, bit_of_the_bytes, one_character, cut, bytes_cut, extended, bytes_extended]
COMMON += [spliced, bytes_spliced, shuffled, other_prefix, other_case, lookalike, unicode_noise, whitespace, padding]
COMMON += [last_character, other_alphabet, anything, sealed_by_a_stranger, no_text]


def altered(chance: Chance, token: str, other: str) -> tuple[str, Any]:
    """Return the name of an alteration, and what it makes of `token`, with `other` to splice in.

    It is never a genuine spelling of either: what happens to come out as one is drawn again.
    """
    alteration = chance.choice(RARE if chance.random() < 0.005 else COMMON)
    value = alteration(chance, token, other)
    return altered(chance, token, other) if value in (token, other) else (alteration.__name__, value)
