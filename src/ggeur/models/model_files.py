"""Write and read a model: `head.npz` and `model.json`, or an export; files are not trusted."""

import json
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from ggeur.heads import resolve as resolve_head
from ggeur.heads import sizes
from ggeur.heads.head import Params
from ggeur.heads.parameter_tree import by_path
from ggeur.models.places import CONFIG, WEIGHTS, is_export, read_config, read_weights
from ggeur.models.transaction import current
from ggeur.privacy.bounded_norm import BoundedNorm
from ggeur.stats.custom import build_custom, is_custom, one_line
from ggeur.stats.errors import GgeurError, nearest_file
from ggeur.stats.storage import cannot, check_format, read_arrays, sealed, unsealed, write_atomically
from ggeur.stats.units import Units

MORE = ("algorithm", "settings", "metrics", "privacy", "calibration")  # older models lack it
FORMAT = 1  # of a model folder; one of a higher format is refused, and models before 0.3 have none
_KEYS = {"format", "head", "parameters", "dimension", "class_names", "encoder", "units", "ball", *MORE}


def write_model(folder: Path, params: Params, about: dict[str, Any]) -> None:
    """Write the weights of a head and `about`, its model.json, to `folder`, which is made if it is missing."""
    with cannot(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    # Like np.savez, which would take an array called "file" for its own argument.
    with write_atomically(folder / "head.npz") as file, zipfile.ZipFile(file, "w") as archive:
        for name, leaf in by_path(params).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asarray(leaf), allow_pickle=False)
    with write_atomically(folder / "model.json") as file:
        file.write(sealed({"format": FORMAT, **about}))  # dates become text


def read_model(folder: Path, custom: bool, numbers: bool) -> dict[str, Any]:
    """Return the fields of the model in `folder`; see `Model.load` for the parameters."""
    exported = is_export(folder)
    try:
        place = folder / CONFIG if exported else current(folder, "model.json")
        content = place.read_bytes()
        check_format(json.loads(content), FORMAT, place)
        about = read_config(folder) if exported else unsealed(content, _KEYS)
        names, dimension = tuple(map(str, about["class_names"])), int(about["dimension"])
        head, encoder = str(about["head"]), dict(about["encoder"])
        parameters = dict(about.get("parameters", {}))
        if dimension < 1:
            raise ValueError("its dimension is not positive")
        units = _units(about["units"], dimension) if "units" in about else None
        more: dict[str, Any] = {key: dict(about.get(key, {})) for key in MORE}
        more["ball"] = _ball(about["ball"], dimension) if "ball" in about else None
        if not 0 < float(more["calibration"].get("temperature", 1.0)) < np.inf:
            raise ValueError("its temperature is not positive")
        _check_words(more, encoder)
    except FileNotFoundError as error:
        raise GgeurError(
            f"There is no trained model at {folder}.{nearest_file(folder)}", code="model-missing"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        place = folder / (CONFIG if exported else "model.json")
        raise GgeurError(f"{place} is damaged: {one_line(error)}.", code="file-damaged") from error
    if is_custom(head) and not custom:
        raise GgeurError(
            f"The model at {folder} has the head '{head}', and to load it is to import that module; "
            "if you trust it, use Model.load(path, custom=True).",
            code="model-custom-untrusted",
        )
    params = None
    if numbers:
        arrays = read_weights(folder) if exported else read_arrays(current(folder, "head.npz"))
        parameters, params = built(head, parameters, arrays, dimension, len(names))
        if params is None:
            where, said = folder / (WEIGHTS if exported else "head.npz"), CONFIG if exported else "model.json"
            raise GgeurError(f"{where} does not hold the head that {said} describes.", code="model-params-mismatch")
    fields = {"head": head, "dimension": dimension, "class_names": names, "encoder": encoder, "parameters": parameters}
    return {"params": params, **fields, "units": units, **more}


def _check_words(more: Mapping[str, Any], encoder: Mapping[str, Any]) -> None:
    """Raise where fields of a model that cards or predictions use have the wrong type."""
    metrics, privacy, said = more["metrics"], more["privacy"], more["calibration"]
    numbers = [encoder.get("dimension", 1), *(privacy.get(name, 0) for name in ("epsilon", "delta", "mu", "radius"))]
    if metrics:
        numbers += [metrics["avg"], *dict(metrics["domains"]).values()]
    for name in ("validation", "test"):
        numbers += [dict(said.get(name) or {}).get(key, 0) for key in ("samples", "error", "error_before")]
    if not all(isinstance(number, Real) for number in numbers):
        raise ValueError("what it says of itself has text where numbers should be")
    for name in ("train", "partition"):
        dict(more["settings"].get(name, {}))


class Built(NamedTuple):
    """The parameters of a head, and its weights as a tree; None where they do not fit."""

    parameters: dict[str, Any]
    params: Params


def built(kind: str, parameters: Mapping[str, Any], arrays: Mapping[str, Any], dimension: int, classes: int) -> Built:
    """Build the head `kind` of so many dimensions and classes from its weights, `arrays` by path."""
    import jax

    known = dict(parameters)
    if not known:  # older models lack them
        with suppress(KeyError):  # a missing array, which is found below
            known = sizes(kind, arrays)
    head, key = resolve_head(kind, **known), jax.random.key(0)
    expected = build_custom(kind, "head", lambda: jax.eval_shape(lambda key: head.init(key, dimension, classes), key))
    shapes = {name: leaf.shape for name, leaf in by_path(expected).items()}
    if {name: a.shape for name, a in arrays.items()} != shapes or not all(
        a.dtype.kind == "f" and np.isfinite(a).all() for a in arrays.values()
    ):
        return Built(known, None)
    return Built(known, jax.tree.unflatten(jax.tree.structure(expected), [arrays[name] for name in shapes]))


def _units(about: Mapping[str, Any], dimension: int) -> Units:
    """Return the units in model.json."""
    units = Units(np.array(about["shift"], np.float64), float(about["scale"]))
    if units.shift.shape != (dimension,) or not np.isfinite(units.shift).all() or not 0 < units.scale < np.inf:
        raise ValueError("its units are not a shift and a scale")
    return units


def _ball(about: Mapping[str, Any], dimension: int) -> BoundedNorm:
    """Return the clipping and projection in model.json."""
    radius, projection = about["radius"], about["projection"]
    if not (radius is None or 0 < float(radius) < np.inf) or projection not in (None, dimension):
        raise ValueError("its ball is not a radius and a projection")
    return BoundedNorm(None if radius is None else float(radius), projection)
