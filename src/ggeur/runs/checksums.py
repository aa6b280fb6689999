"""JSON with checksums against damage: the SHA-256 of a file, the CRC of a line."""

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from ggeur.settings.old_names import record_of_before

_SEAL = "sha256"
_LINE = re.compile(rb'(.*), "crc": (\d+)\}\n', re.S)


def _digest(tree: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def sealed(tree: Mapping[str, Any]) -> bytes:
    """Return `tree` as JSON with a checksum; values that JSON lacks, such as dates, become text."""
    plain = json.loads(json.dumps(tree, default=str))  # as it will be read: keys are text
    return json.dumps({**plain, _SEAL: _digest(plain)}, indent=1).encode()


def unsealed(content: bytes, keys: set[str]) -> dict[str, Any]:
    """Return the tree, which has no other keys than `keys`; raise ValueError where it was changed.

    Files of earlier versions without a checksum are accepted.
    """
    tree = json.loads(content)
    if not isinstance(tree, dict):
        raise ValueError("it is not an object")
    seal = tree.pop(_SEAL, None)
    if seal is not None and seal != _digest(tree):
        raise ValueError("its checksum does not match; it was changed or damaged")
    tree = dict(record_of_before(tree))
    if not tree.keys() <= keys:
        raise ValueError(f"it holds {', '.join(sorted(tree.keys() - keys))}, which it should not")
    return tree


def sealed_line(event: Mapping[str, Any]) -> bytes:
    """Return one line of JSON with a checksum."""
    body = json.dumps(event).encode()[:-1]
    return body + f', "crc": {zlib.crc32(body)}}}\n'.encode()


def unsealed_line(line: bytes) -> dict[str, Any]:
    """Return the event; raise ValueError where the line was changed. Earlier versions' lines have no checksum."""
    parts = _LINE.fullmatch(line)
    if parts is not None and zlib.crc32(parts[1]) != int(parts[2]):
        raise ValueError("its checksum does not match")
    event = json.loads(line)
    if not isinstance(event, dict) or not line.endswith(b"\n"):
        raise ValueError("it is not a whole line")
    return dict(record_of_before(event))
