"""The SuperLink's API for administrators, on loopback, as `ggeur federate link` keeps it."""

import ssl
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.proto.run_pb2 import Run

_SECONDS = 15.0


class Control:
    """A connection to the SuperLink of the server's folder `server`; a context that closes it."""

    def __init__(self, server: Path) -> None:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor

        self._server = server
        try:
            found = tomllib.loads((server / "link" / "home" / "config.toml").read_text(encoding="utf-8"))["superlink"]
            one = found[found["default"]]
            trust = ssl.create_default_context(cafile=one["root-certificates"])
        except (OSError, ValueError, KeyError) as error:
            raise self._absent() from error
        versions = RuntimeVersionHttpInterceptor(component_name="flwr")
        url = f"https://{one['address']}"
        self._client = ControlHttpClient(url, interceptors=[versions], verify=trust, timeout=_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()

    def nodes(self) -> "Sequence[NodeInfo]":
        """Return the registered nodes."""
        from flwr.proto.control_pb2 import ListNodesRequest

        nodes = self._call(self._client.ListNodes, ListNodesRequest()).nodes_info
        return [node for node in nodes if node.status != "unregistered"]

    def register(self, public_key: bytes) -> None:
        """Register a node by its public key (PEM); nothing happens where it is registered already."""
        from flwr.proto.control_pb2 import RegisterNodeRequest

        if any(node.public_key == public_key for node in self.nodes()):
            return
        self._call(self._client.RegisterNode, RegisterNodeRequest(public_key=public_key))

    def run(self, number: int) -> "Run | None":
        """Return what the SuperLink knows of a run; None where it knows nothing."""
        from flwr.proto.control_pb2 import ListRunsRequest

        runs = self._call(self._client.ListRuns, ListRunsRequest(run_id=number)).run_dict
        return runs.get(number)

    def stop(self, number: int) -> None:
        """Stop a run, if it is still there."""
        from flwr.proto.control_pb2 import StopRunRequest

        with suppress(GgeurError):
            self._call(self._client.StopRun, StopRunRequest(run_id=number))

    def _call(self, method: Any, request: Any) -> Any:
        import httpx

        try:
            return method(request)
        except httpx.HTTPStatusError as error:
            raise GgeurError(
                f"The SuperLink refuses that (status {error.response.status_code}); its log says why.",
                code="superlink-refuses",
            ) from error
        except httpx.HTTPError as error:
            raise self._absent() from error

    def _absent(self) -> GgeurError:
        return GgeurError(
            f"The server of {self._server} is not running; start it with `ggeur federate link {self._server}`.",
            code="link-not-running",
        )
