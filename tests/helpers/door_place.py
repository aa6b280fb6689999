"""A server's door before a stand-in for the SuperLink that answers one call, and a site's files."""

from contextlib import asynccontextmanager

from ggeur.flower.door.doors import front_door
from ggeur.flower.door.invitations import Invitations
from ggeur.flower.door.listening import Listening, bound, server_context
from ggeur.flower.machines.certificates import make_certificates, make_node_key, make_site_certificate
from ggeur.flower.machines.checks import check_server
from ggeur.flower.machines.loopback import Loopback
from ggeur.flower.machines.node import Identity


class SuperLink:
    """Answers the one call that the door makes itself, in Flower's words."""

    def __init__(self):
        self.nodes = []

    async def __call__(self, scope, receive, send):
        from flwr.proto.control_pb2 import ListNodesResponse

        while (await receive()).get("more_body"):
            pass
        body = ListNodesResponse(nodes_info=self.nodes).SerializeToString()
        assert scope["path"] == "/v1/control/list-nodes"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    def register(self, public_key, status):
        from cryptography.hazmat.primitives import serialization as s
        from flwr.proto.node_pb2 import NodeInfo

        key = s.load_ssh_public_key(public_key.read_bytes())
        pem = key.public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
        self.nodes.append(NodeInfo(node_id=2**63 + 5, public_key=pem, status=status))


class Place:
    """A server's door and a site's files."""

    def __init__(self, folder, stack):
        self.folder, self.stack, self.superlink, self.told = folder, stack, SuperLink(), []
        self.faults = {}
        self.keys = folder / "keys"
        make_certificates(self.keys, ["localhost"])
        make_node_key(folder / "node")
        certificate = make_site_certificate(self.keys, folder / "node.pub", "leeds")
        self.identity = Identity(self.keys / "ca.crt", folder / "node", certificate)
        self.loopback = Loopback.make(folder / "loopback")
        self.port = self.front(self.keys)

    def front(self, keys):
        @asynccontextmanager
        async def opening():
            yield self.superlink

        context = server_context(self.loopback.certificate, self.loopback.key, None)
        inner = self.stack.enter_context(Listening(bound("127.0.0.1", 0), context, opening))
        files = [keys / name for name in ("server.crt", "server.key", "ca.crt", "revoked")]
        trust, address = self.loopback.client_context(), f"127.0.0.1:{inner.port}"
        made = bound("127.0.0.1", 0)
        more = {"invitations": Invitations(keys), "faults": self.faults.__setitem__}
        door = front_door(made, *files, address, trust, self.told.append, **more)
        return self.stack.enter_context(door).port

    def check(self, host="localhost", port=None, identity=None):
        said = []
        return check_server(f"{host}:{port or self.port}", identity or self.identity, said.append), said
