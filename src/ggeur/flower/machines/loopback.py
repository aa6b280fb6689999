"""A certificate for loopback and a shared secret, by which Flower's processes on one machine trust each other.

Both are new at every start, in a folder that only their user can read.
"""

import os
import secrets
import shutil
import ssl
from dataclasses import dataclass
from pathlib import Path

from ggeur.flower.machines.certificates import AUTHORITY, SERVER, SERVER_KEY, make_certificates, write_private
from ggeur.stats.storage import cannot

LOOPBACK = "127.0.0.1"
_YEARS = 3650  # days; a process that runs for so long is started again before


@dataclass(frozen=True)
class Loopback:
    """The folder with the certificate and the secret."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Loopback":
        """Make the folder with a new certificate and secret."""
        with cannot(f"write {folder}"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, mode=0o700)
            os.chmod(folder, 0o700)
        make_certificates(folder, [LOOPBACK, "localhost"], _YEARS, closed=True)
        write_private(folder / "secret", secrets.token_bytes(32))
        return cls(folder)

    @property
    def authority(self) -> Path:
        """Return the certificate by which clients on this machine verify its servers."""
        return self.folder / AUTHORITY

    @property
    def certificate(self) -> Path:
        """Return the servers' certificate."""
        return self.folder / SERVER

    @property
    def key(self) -> Path:
        """Return the servers' key."""
        return self.folder / SERVER_KEY

    @property
    def secret(self) -> Path:
        """Return the file by which a SuperExec proves that it may take tasks."""
        return self.folder / "secret"

    def options(self) -> list[str]:
        """Return the options by which Flower's servers use TLS and give tasks to their own SuperExec only."""
        words = ["--ssl-ca-certfile", str(self.authority), "--ssl-certfile", str(self.certificate)]
        words += ["--ssl-keyfile", str(self.key), "--isolation", "process"]
        return [*words, "--superexec-auth-secret-file", str(self.secret)]

    def client_context(self) -> ssl.SSLContext:
        """Return a client's side of TLS towards servers of this machine."""
        return ssl.create_default_context(cafile=str(self.authority))
