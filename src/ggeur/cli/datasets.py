"""`ggeur datasets`: list the known datasets and where they are."""

from rich.table import Column, Table

from ggeur.cli.options import Data
from ggeur.cli.screen import console, say

_ABOUT = (
    "Images are training + test; a single number is split 70/30 within each domain, by the seed. The datasets' own "
    "files are looked for below --data or $GGEUR_DATA, then on the Hugging Face hub. Your own images: ggeur embed "
    "FOLDER, with FOLDER/<domain>/<class>/* or FOLDER/<class>/*."
)


def datasets(data: Data = None) -> None:
    """List the known datasets and where they were found."""
    from ggeur.data.datasets import DATASETS, MINI_DIGITS, dataset_root, find

    below = dataset_root(data)
    table = Table(Column("dataset", no_wrap=True), "domains", "classes", "images", "there?")
    lines = []
    for dataset in DATASETS.values():
        found = [(source, find(source, below)) for source in dataset.sources]
        domains = ", ".join(dataset.domains) if len(dataset.domains) > 1 else "one"
        missing = [source for source, folder in found if folder is None]
        state = "yes" if not missing else "on the hub" if all(s.hub for s in missing) else "no"
        table.add_row(dataset.name, domains, str(dataset.n_classes), dataset.images, state)
        for source, folder in found:
            part = f" ({source.domains[0]})" if len(found) > 1 else ""
            hub = f"on the hub as {source.hub.id}, or " if source.hub else ""
            place = f"found in {folder}" if folder else f"{hub}get {source.get}"
            lines.append(f"{dataset.name}{part}: {place}.")
    table.add_row(MINI_DIGITS, "handwritten, typeset, clutter, texture", "10", "7,197", "built in")
    console.print(table)
    for line in (*lines, _ABOUT):
        say(line, soft_wrap=True)
