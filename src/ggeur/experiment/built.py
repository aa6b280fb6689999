"""What the settings of a cell stand for: its head, its method and its training, as the engine takes them."""

from ggeur.engine.training import LocalOptimiser, Training
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import Head
from ggeur.methods import kind_of, resolve_trained
from ggeur.methods.algorithm import Given, Solved, Trained
from ggeur.settings.schema import Settings


def head_of(settings: Settings) -> Head:
    """[train] head, with its parameters."""
    t = settings.train
    return resolve_head(t.head, softmax=t.softmax, **settings.head_parameters())


def solved(settings: Settings) -> bool:
    """Whether the head is solved, or given, rather than trained."""
    return kind_of(settings.train.method) in (Solved, Given)


def method_of(settings: Settings, name: str | None = None) -> Trained:
    """[train] method, or another of that name, with its parameters."""
    name = name or settings.train.method
    return resolve_trained(name, head_of(settings), settings.method.get(name, {}))


def training_of(settings: Settings) -> Training:
    """[train] as the engine takes it."""
    t = settings.train
    return Training(
        rounds=t.rounds,
        batch=t.batch,
        rate=t.rate,
        local_epochs=t.local_epochs,
        local_steps=t.local_steps,
        optimiser=LocalOptimiser(t.optimiser, t.momentum, t.weight_decay),
        clients_per_round=t.clients_per_round,
        broadcast=t.broadcast,
        storage=t.storage,
    )
