"""`audit.json`: what an audit of a run found, for its report."""

import os
from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ggeur.core.errors import GgeurError
from ggeur.data.files import write_bytes
from ggeur.experiment.audit import Audit
from ggeur.runs.checksums import sealed, unsealed

FILE = "audit.json"
_SCHEMA = 1


def save_audit(found: Audit, folder: str | os.PathLike[str]) -> Path:
    """Write it into a `folder`, whole or not at all; its path."""
    path = Path(folder) / FILE
    write_bytes(path, sealed({"schema": _SCHEMA, "audit": _reader().dump_python(found, mode="json")}))
    return path


def load_audit(folder: str | os.PathLike[str]) -> Audit | None:
    """Return what the file of a `folder` holds; None where there is none."""
    path = Path(folder) / FILE
    try:
        tree = unsealed(path.read_bytes(), {"schema", "audit"})
        if tree["schema"] != _SCHEMA:
            raise ValueError(f"this version reads schema {_SCHEMA}")
        return _reader().validate_python(tree["audit"])
    except FileNotFoundError:
        return None
    except (OSError, KeyError, ValidationError, ValueError, RecursionError) as error:
        raise GgeurError(
            f"{path} is not what an audit wrote; run `ggeur audit` again.", code="audit-file-invalid"
        ) from error


@lru_cache(maxsize=1)
def _reader() -> TypeAdapter[Audit]:
    return TypeAdapter(Audit)
