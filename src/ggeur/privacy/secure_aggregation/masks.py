"""Masks: ChaCha20 streams whose keys two sites share, or one site keeps until every site has sent."""

import hashlib
import math
from collections.abc import Iterable, Mapping

import numpy as np

from ggeur.privacy.secure_aggregation.fixed_point import Vector
from ggeur.privacy.secure_aggregation.keys import Announced, Attempt, Secrets, transcript
from ggeur.stats.errors import GgeurError

_AT_ONCE = 2**16  # numbers of a stream at once
_ALL_PAIRS = 100  # sites up to which each shares a mask with each


def neighbours(site: int, attempt: Attempt, digest: bytes) -> list[int]:
    """Return the sites that share masks with `site`: all or, of more than a hundred, about 2 log2 K others.

    These are its neighbours in a circle whose order is drawn by `digest`, the attempt's transcript.
    """
    n = len(attempt.sites)
    if n <= _ALL_PAIRS:
        return [other for other in attempt.sites if other != site]
    circle = sorted(attempt.sites, key=lambda other: hashlib.sha256(digest + str(other).encode()).digest())
    at, reach = circle.index(site), math.ceil(math.log2(n))
    return [circle[(at + step) % n] for step in range(-reach, reach + 1) if step]


def bound_question(attempt: Attempt, announced: Mapping[int, Announced], question: bytes) -> bytes:
    """Return a hash of the attempt, its keys and a site's `question`, which the masks of pairs use.

    So the masks of sites with different questions, some of which might be empty, do not cancel.
    """
    return hashlib.sha256(transcript(attempt, announced) + hashlib.sha256(question).digest()).digest()


def mask(
    vector: Vector, site: int, own: Secrets, attempt: Attempt, announced: Mapping[int, Announced], question: bytes
) -> None:
    """Mask `vector`, the addend of `site`, in place; keys have been checked."""
    digest, salt = transcript(attempt, announced), bound_question(attempt, announced, question)
    _stream(vector, _own_key(own.seed, digest), 1)
    for other in neighbours(site, attempt, digest):
        shared = _pair_key(own.private, announced[other].public, salt, (site, other))
        _stream(vector, shared, 1 if site < other else -1)


def unmask(total: Vector, seeds: Iterable[str], digest: bytes) -> None:
    """Subtract the sites' own masks, made from these `seeds`, from the `total` of all vectors, in place."""
    for seed in seeds:
        _stream(total, _own_key(seed, digest), -1)


def _pair_key(private: str, public: str, salt: bytes, pair: tuple[int, int]) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        theirs = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
        shared = X25519PrivateKey.from_private_bytes(bytes.fromhex(private)).exchange(theirs)
    except ValueError as error:  # also a point of low order, whose shared secret is zero
        raise GgeurError("a site's key for this attempt is not valid", code="site-key-invalid") from error
    return _key(shared, salt, f"pair {min(pair)} {max(pair)}")


def _own_key(seed: str, digest: bytes) -> bytes:
    return _key(bytes.fromhex(seed), digest, "own")


def _key(secret: bytes, salt: bytes, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return bytes(HKDF(SHA256(), 32, salt=salt, info=f"ggeur secure aggregation, {purpose}".encode()).derive(secret))


def _stream(vector: Vector, key: bytes, sign: int) -> None:
    """Add ChaCha20's stream under `key`, which is used once, to `vector`, or subtract it."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    cipher = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    zeros, drawn = bytes(8 * _AT_ONCE), bytearray(8 * _AT_ONCE)
    for first in range(0, len(vector), _AT_ONCE):
        some = vector[first : first + _AT_ONCE]
        cipher.update_into(memoryview(zeros)[: some.nbytes], drawn)
        (np.add if sign > 0 else np.subtract)(some, np.frombuffer(drawn, "<u8", len(some)), out=some)
