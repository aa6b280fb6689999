"""Keep a site's node connected: check the way to the server, start Flower's processes, and start them again.

Flower's node ends for good when the server does not know it for a moment, gives up on some faults of the network, and
is not let in again within a minute of being killed.
"""

import json
import ssl
import time
from collections.abc import Callable
from typing import NoReturn

from ggeur.flower.door.invitations import fingerprint
from ggeur.flower.machines.certificates import make_node_key
from ggeur.flower.machines.checks import Passing, Standing, ask_server, check_server
from ggeur.flower.machines.kit import SiteKit
from ggeur.flower.machines.node import Identity, Node, executor
from ggeur.stats.long_jobs import check
from ggeur.stats.storage import write_bytes

SILENCE = 120.0  # seconds without an answer of the server, after which Flower's processes are started again
_LOOK = 0.5
_FIRST, _LONGEST = 1.0, 16.0  # seconds of the first pause between two tries, and of the longest
_STEADY = 60.0  # seconds of connection after which pauses are short again
_AGAIN = 300.0  # seconds before the same fault is told again
_NOTICED = 2.0  # seconds for the server's run to see that the node was away, and what it was asked is lost

Say = Callable[[str], None]


class Patience:
    """Pauses between tries, each longer than the last, and what is said meanwhile."""

    def __init__(self, say: Say) -> None:
        self._say, self._pause = say, _FIRST
        self._told: dict[str, float] = {}

    def rest(self) -> None:
        """Pause before the next try."""
        _sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST)

    def tell(self, sentence: str) -> None:
        """Say a sentence, the same one only once in a while."""
        now = time.monotonic()
        if now - self._told.get(sentence, -_AGAIN) >= _AGAIN:
            self._told = {sentence: now}
            self._say(sentence)


class Supervisor:
    """Supervise `node`, which calls the server at `address` with the files of `identity`; `say` is given sentences."""

    def __init__(self, node: Node, address: str, identity: Identity, say: Say) -> None:
        self._node, self._address, self._identity, self._say = node, address, identity, say
        self._patience = Patience(say)

    def run(self) -> NoReturn:
        """Keep the node connected for ever; raise GgeurError where only the site itself can help."""
        steps: Say = self._say  # every step is told once
        while True:
            standing = self._admitted(steps)
            steps = _nobody
            if standing.online and not self._leave(standing):
                continue
            began = time.monotonic()
            self._node.start()
            why = self._watch()
            connected = self._node.heard.connected
            self._node.end()
            if connected and time.monotonic() - began > _STEADY:
                self._patience = Patience(self._say)
            self._say(f"{why} It is started again.")
            self._patience.rest()

    def _admitted(self, steps: Say) -> Standing:
        """Wait until the server would let the node in."""
        while True:
            check()
            try:
                return check_server(self._address, self._identity, steps)
            except Passing as fault:
                steps = _nobody
                self._patience.tell(f"{fault} It is tried again until it works.")
            self._patience.rest()

    def _leave(self, standing: Standing) -> bool:
        """Have the server forget a connection of this node; return whether it may connect now.

        A node that was killed is held for online for another minute, and is not let in meanwhile.
        """
        if not self._node.heard.marker.exists():
            self._patience.tell(
                "The server holds this node for connected; does another machine use its key? It is tried again."
            )
            self._patience.rest()
            return False
        deactivate(self._address, self._identity, standing.node)
        self._node.heard.marker.unlink(missing_ok=True)
        _sleep(_NOTICED)
        return True

    def _watch(self) -> str:
        """Return, in a sentence, why Flower's process has ended or must be."""
        node, told = self._node, False
        while True:
            check()
            if node.heard.connected and not told:
                told = True
                self._say(f"Connected to {self._address}.")
            if node.machines.ended(node.name):
                why = f": {node.heard.refused}." if node.heard.refused else node.machines.last_words(node.name)
                return f"Flower's process has ended{why}"
            if time.monotonic() - node.heard.last > SILENCE:
                return f"{self._address} has not answered for {SILENCE / 60:.0f} minutes."
            if node.machines.keep(executor(node.name)):
                self._say("The SuperExec had ended and is started again.")
            _sleep(_LOOK)


def join(kit: SiteKit, say: Say) -> None:
    """Make the node key of this site, and wait until the server has let it in and sent its certificate."""
    if not kit.key.exists():
        make_node_key(kit.key)
    if kit.certificate.exists():
        return
    context = ssl.create_default_context(cafile=str(kit.authority))
    context.load_cert_chain(kit.invitation)
    public = kit.key.with_name(f"{kit.key.name}.pub").read_text(encoding="utf-8").strip()
    body = json.dumps({"public_key": public}).encode()
    patience, steps = Patience(say), say
    while True:
        check()
        try:
            answer = ask_server(kit.server, context, body, steps)
        except Passing as fault:
            patience.tell(f"{fault} It is tried again until it works.")
        else:
            if answer["certificate"] is not None:
                write_bytes(kit.certificate, str(answer["certificate"]).encode())
                say(f"The server has let {kit.name} in.")
                return
            patience.tell(
                f"{kit.name} has asked to join with the node key {fingerprint(public)}; tell the server's "
                "administrator, who lets it in with `ggeur federate register`."
            )
        steps = _nobody
        patience.rest()


def deactivate(address: str, identity: Identity, node: int) -> None:
    """Tell the server that the `node` of this identity has left, as a node of Flower does at its end."""
    import httpx
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest
    from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    key = load_ssh_private_key(identity.key.read_bytes(), None)
    signed = NodeAuthHttpInterceptor(key, key.public_key())
    versions = RuntimeVersionHttpInterceptor(component_name="SuperNode")
    client = FleetHttpClient(
        f"https://{address}", interceptors=[versions, signed], verify=identity.context(), timeout=10.0
    )
    try:
        client.DeactivateNode(DeactivateNodeRequest(node_id=node))
    except httpx.HTTPError:
        pass  # it is offline by itself within a minute
    finally:
        client.close()


def _sleep(seconds: float) -> None:
    """Sleep, and end soon after a signal."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, _LOOK))


def _nobody(sentence: str) -> None:
    """Say nothing."""
