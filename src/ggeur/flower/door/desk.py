"""What the door tells a site about itself: the server's time, whether it has joined, and is registered and online."""

import base64
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ggeur.flower.door.invitations import Invitations
from ggeur.flower.door.visitors import Visitor
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    import httpx

LIST_NODES = "/v1/control/list-nodes"
Notice = Callable[[str], None]
UNREGISTERED, ONLINE = "unregistered", "online"


def control_headers() -> dict[str, str]:
    """Return the headers of a call to the SuperLink's API for administrators."""
    from flwr.supercore.runtime_version_compatibility import RuntimeVersionMetadata

    media = {"content-type": "application/protobuf", "accept": "application/protobuf"}
    return {**dict(RuntimeVersionMetadata.from_local_component("flwr").as_metadata()), **media}


class SiteDesk:
    """Answer a site by what the SuperLink, reached by `superlink`, knows of its node, and by its `invitations`."""

    def __init__(self, superlink: "httpx.AsyncClient", invitations: Invitations | None, notice: Notice) -> None:
        self._superlink, self._invitations, self._notice = superlink, invitations, notice
        self._asked: set[str] = set()

    def _join(self, visitor: Visitor, asked: bytes) -> Mapping[str, Any]:
        """Return the certificate of a site that has been let in."""
        if self._invitations is None:
            raise GgeurError("This server has no invitations.", code="join-closed")
        certificate, print_ = self._invitations.ask(visitor, asked)
        if certificate is None and visitor.name not in self._asked:
            self._asked.add(visitor.name)
            self._notice(f"{visitor.name} asks to join, with the node key {print_}.")
        return {"time": time.time(), "site": visitor.name, "certificate": certificate}

    async def __call__(self, visitor: Visitor, asked: bytes) -> Mapping[str, Any]:
        """Return the server's time, and the id and status of the node whose key the certificate was made for.

        A site with an invitation is told its certificate instead, as soon as it has been let in.
        """
        if visitor.invited:
            return self._join(visitor, asked)
        import httpx
        from flwr.proto.control_pb2 import ListNodesRequest, ListNodesResponse

        node = None
        try:
            body = ListNodesRequest().SerializeToString()
            answer = await self._superlink.post(LIST_NODES, content=body, headers=control_headers())
            answer.raise_for_status()
        except httpx.HTTPError:
            return {"time": time.time(), "superlink": False}
        key = base64.b64decode(visitor.node_key)
        for one in ListNodesResponse.FromString(answer.content).nodes_info:
            if one.public_key == key and one.status != UNREGISTERED:
                node = {"id": str(one.node_id), "online": one.status == ONLINE}
        return {"time": time.time(), "superlink": True, "site": visitor.name, "node": node}
