"""`ggeur methods | datasets | encoders`: what there is."""

import inspect
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from ggeur.cli.screen import console

EXTRAS = {"hf": ("torch", "transformers", "PIL"), "onnx": ("onnxruntime", "PIL")}


def methods() -> None:
    from ggeur.methods import factory, names, parameters
    from ggeur.methods.algorithm import Bound, Given, Solved, Trained

    table = Table("method", "what it does", "parameters")
    for name in names(Trained, Solved, Given):
        about = inspect.getdoc(inspect.getmodule(factory(name))) or ""
        values = [f"{p.name} = {p.default!r}" for p in parameters(name).values()]
        table.add_row(name, about.partition("\n")[0], ", ".join(values))
    bounds = ("FedAvg of each client alone; accuracies averaged.", "FedAvg with all data in one place.")
    for name, about in zip(names(Bound), bounds, strict=True):
        table.add_row(name, f"Bound: {about}", "")
    console.print(table)
    console.print('Your own: [train] method = "package.module:name".', markup=False, highlight=False)


def datasets(data: Path | None = None) -> None:
    from ggeur.data.datasets import MINI_DIGITS, find, root
    from ggeur.data.datasets_paper import DATASETS

    below = root(data)
    table = Table("dataset", "domains", "classes", "images", "there?")
    table.columns[0].no_wrap = True
    lines = []
    for dataset in DATASETS.values():
        found = [find(source, below) for source in dataset.sources]
        domains = ", ".join(dataset.domains) if len(dataset.domains) > 1 else "one"
        missing = [s for s, folder in zip(dataset.sources, found, strict=True) if folder is None]
        state = "yes" if not missing else "on the hub" if all(s.hub for s in missing) else "no"
        table.add_row(dataset.name, domains, str(dataset.n_classes), dataset.images, state)
        for source, folder in zip(dataset.sources, found, strict=True):
            part = f" ({source.domains[0]})" if len(dataset.sources) > 1 else ""
            hub = f"on the hub as {source.hub.id}, or " if source.hub else ""
            place = f"found in {folder}" if folder else f"{hub}get {source.get}"
            lines.append(f"{dataset.name}{part}: {place}.")
    table.add_row(MINI_DIGITS, "handwritten, typeset, clutter, texture", "10", "7,197", "built in")
    console.print(table)
    lines.append(
        "Images are training + test; a single number is split 70/30 within each domain, by the seed. The datasets' own "
        "files are looked for below --data or $GGEUR_DATA, then on the Hugging Face hub. Your own images: ggeur embed "
        "FOLDER, with FOLDER/<domain>/<class>/* or FOLDER/<class>/*."
    )
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def encoders() -> None:
    from ggeur.encode.builtin import BuiltinEncoder
    from ggeur.encode.encoder import DEFAULT

    table = Table("encoder", "what it is", "dimensions", "needs")
    table.columns[0].no_wrap = True
    hf, onnx = (_extra(name, modules) for name, modules in EXTRAS.items())
    table.add_row(DEFAULT, "CLIP ViT-B/16, the paper's and the default", "512", hf)
    table.add_row("NAME or FOLDER", "any Hugging Face model of the CLIP, SigLIP or DINOv2 families", "its own", hf)
    table.add_row(
        "onnx:PATH", "any image tower exported to ONNX; preprocessing from options or PATH.json", "its own", onnx
    )
    builtin = BuiltinEncoder()
    table.add_row(
        builtin.name, "weight-free, for small pictures of shapes; no download", str(builtin.dimension), "nothing"
    )
    console.print(table)


def _extra(name: str, modules: Sequence[str]) -> str:
    there = all(find_spec(module) for module in modules)
    return "installed" if there else escape(f"pip install 'ggeur[{name}]'")
