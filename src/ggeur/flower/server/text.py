"""Text embeddings of the class names, which are public and the same at every site that has the class."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ggeur.data.table import FIRST_TEXT
from ggeur.flower.server.agreement import Agreement, Client
from ggeur.flower.server.roster import Roster
from ggeur.flower.wire.ask import Answer, Question
from ggeur.methods import parameters
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import FloatArray

_ALIKE = 1e-2  # share of its length by which a text may differ between sites, whose machines round differently


def asked_text(method: str, given: Mapping[str, Any]) -> str | Literal[False] | None:
    """Return the prompts of the text that `method` needs; None for any, False where it needs none."""
    values = {key: p.default for key, p in parameters(method).items()} | dict(given)
    return values.get("prompts", False)


def common_prompts(roster: Roster) -> str | None:
    """Return the first prompts by which every site of `roster` has text embeddings, if there are any."""
    return _first_common([client.hello.text for client in roster.known])


def _first_common(each: Sequence[tuple[str, ...]]) -> str | None:
    return next((name for name in (each[0] if each else ()) if all(name in names for names in each)), None)


def collect_text(
    roster: Roster, agreement: Agreement, prompts: str | None, *, needed: bool = True
) -> Mapping[str, FloatArray]:
    """Return the text embeddings of all agreed classes by these `prompts`, from the sites of `roster`.

    Without `prompts` it takes the first that all sites with text have. Where text is not `needed` and sites differ in
    it, it returns None and refuses nobody.
    """
    if prompts is None and (sets := [client.hello.text for client in roster.present if client.hello.text]):
        prompts = _first_common(sets)
        if prompts is None:
            raise GgeurError(
                "The sites' tables have no set of text in common: name one as prompts.",
                code="text-embeddings-not-common",
            )
    found: dict[str, FloatArray] = {}
    unlike: list[str] = []

    def read(client: Client, answer: Answer) -> FloatArray:
        text, classes = answer.arrays.get("text", np.zeros(0)), client.hello.classes
        if text.size and (text.shape != (len(classes), agreement.dimension) or not np.isfinite(text).all()):
            raise GgeurError("its text embeddings are not of its classes", code="message-text-classes")
        for name, sample in zip(classes, text, strict=False):
            known = found.setdefault(name, sample)
            if np.linalg.norm(known - sample) > _ALIKE * np.linalg.norm(known):
                if needed:
                    raise GgeurError(f"its text embedding of '{name}' is not the others'", code="message-text-mismatch")
                unlike.append(name)
        return np.asarray(text, np.float32)

    question = Question("query.text", {"prompts": prompts}, {})
    for client, _, text in roster.ask(roster.present, lambda client: question, read, 0, "no text: "):
        roster.journal("text", client=client.index, classes=len(text))
    lacking = [name for name in agreement.classes if name not in found]
    if not needed and (unlike or lacking):
        roster.journal("note", why=f"sites differ in the text embedding of '{(unlike + lacking)[0]}': none is used")
        return {}
    if lacking:
        kind = "" if prompts is None else f" '{prompts}'"
        raise GgeurError(
            f"No site has a text embedding{kind} of '{lacking[0]}': `ggeur embed` makes them with its --prompts; "
            "or name as prompts a set that the sites' tables have.",
            code="text-embeddings-missing",
        )
    return {prompts or FIRST_TEXT: np.stack([found[name] for name in agreement.classes])}
