"""An experiment: a TOML file whose lists span a grid of settings, with overrides from the command line.

Values that belong together are an arm: each `[[arm]]` has a `name` and sections of overrides, and the grid is arms
times lists.
"""

from __future__ import annotations

import itertools
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import tomli_w

from ggeur.data.datasets import DATASETS, MINI_DIGITS
from ggeur.experiments.settings import PARTITION_KEYS, Settings, settings
from ggeur.experiments.settings_types import is_path
from ggeur.stats.errors import GgeurError, nearest_file
from ggeur.stats.old_names import settings_of_before
from ggeur.stats.validate import check_all, check_path


def to_toml(tree: Mapping[str, Any]) -> str:
    """Return `tree`, whose values TOML can hold, as TOML text; its arms become [[arm]]."""
    given = tree.get("arm")
    arms = given if isinstance(given, list) and all(isinstance(arm, Mapping) for arm in given) else []
    try:
        text = tomli_w.dumps({name: part for name, part in tree.items() if name != "arm" or not arms})
        for arm in arms:  # tomli-w would make one line of a short one
            text += "\n[[arm]]\n" + tomli_w.dumps({"arm": arm}).removeprefix("[arm]\n")
        text.encode()
    except (TypeError, ValueError) as error:
        reason = str(error).split(". ")[0].rstrip(".")
        raise GgeurError(f"The experiment cannot be written as TOML: {reason}.", code="experiment-not-toml") from error
    return text


def flat(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value of a tree of sections with its path, which begins with `path`."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, (*path, name))
        else:
            yield (*path, name), value


Sections = dict[str, dict[str, Any]]
_PATHS = (
    ("data", "table"),
    ("data", "dataset"),
    ("data", "encoder"),
    ("federate", "test_table"),
    ("train", "start"),
    ("method", "fedtpg", "clip"),
)


@dataclass(frozen=True)
class Experiment:
    """A grid of settings; all trials of it share the seeds.

    Parameters
    ----------
    tree : the sections of the file, as dictionaries.
    points : the settings of every point of the grid.
    varied : what varies, of every point.

    Attributes
    ----------
    seeds : the seeds that every point runs with.

    >>> e = Experiment.of({"data": {"dataset": "mini-digits"}, "augment": {"kind": ["none", "ggeur"]}})
    >>> [(point.augment.kind, varied) for point, varied in zip(e.points, e.varied)]
    [('none', {'augment.kind': 'none'}), ('ggeur', {'augment.kind': 'ggeur'})]
    """

    tree: Sections  # as written, with overrides
    points: tuple[Settings, ...]
    varied: tuple[dict[str, Any], ...]  # per point, the values of the keys that the grid varies

    @classmethod
    def of(cls, tree: Mapping[str, Any], *, custom: bool = True) -> Self:
        """Expand the lists of `tree` and check every point; relative paths are in the current folder.

        With `custom` false no custom code is imported, as for an experiment that has been run.
        """
        if not isinstance(tree, Mapping):
            raise GgeurError(
                "An experiment is a mapping of sections, as the file has them.", code="experiment-not-mapping"
            )
        whole: Sections = _plain(tree)
        _anchor(whole, Path.cwd())
        points, varied = [], []
        for arm in _arms(whole):
            for point, values in _product(arm):
                name = point.pop("arm", {}).get("name")
                points.append(settings(point, custom=custom))
                varied.append(values | ({"arm": name} if name else {}))
        if len({p.run.seeds for p in points}) > 1:
            raise GgeurError("All arms share the seeds; give them once, under [run].", code="experiment-arms-seeds")
        kinds = {p.partition.kind for p in points}
        used = set().union(*(PARTITION_KEYS[kind] for kind in kinds))
        given = [key for part in (whole, *whole.get("arm", [])) for key in part.get("partition", {})]
        unused = [key for key in given if key not in used]
        if unused:
            raise GgeurError(
                f"[partition] {unused[0]} has no meaning with kind = {', '.join(sorted(kinds))}.",
                code="partition-key-unused",
            )
        return cls(whole, tuple(points), tuple(varied))

    @classmethod
    def load(cls, path: str | os.PathLike[str], overrides: Sequence[str] = (), *, custom: bool = True) -> Self:
        """Read the experiment file at `path`; `overrides` are "section.key=value", and `custom` is as in `of`."""
        given = list(check_all("overrides", overrides, str, 'overrides "section.key=value"'))
        return cls.of(override(_read(check_path("path", path)), given), custom=custom)

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.points[0].run.seeds

    def to_toml(self) -> str:
        """Return the experiment as text that `load` reads back."""
        return to_toml(self.tree)


def _read(path: Path) -> Sections:
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise GgeurError(f"There is no experiment file {path}.{nearest_file(path)}", code="file-missing") from error
    except UnicodeDecodeError as error:
        raise GgeurError(f"{path} is not an experiment file: it is not UTF-8 text.", code="file-not-text") from error
    except OSError as error:
        raise GgeurError(f"Cannot read {path}: {error.strerror or error}.", code="file-unreadable") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise GgeurError(f"{path} is not valid TOML: {error}.", code="file-not-toml") from error
    if (path.parent / "versions.json").exists():  # a run folder, of this version or one before
        tree = settings_of_before(tree)
    _anchor(tree, path.parent)
    return tree


def _plain(value: Any) -> Any:
    """Return `value` for TOML: NumPy's numbers become Python's, and None, which means the default, is left out."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _anchor(tree: Mapping[str, Any], folder: Path) -> None:
    """Make paths absolute: those in a file are relative to the file's `folder`."""
    arms = tree.get("arm")
    for part in (tree, *(arms if isinstance(arms, list) else [])):
        for *sections, key in _PATHS:
            values: Any = part
            for section in sections:
                values = values.get(section) if isinstance(values, dict) else None
            if isinstance(values, dict) and key in values:
                values[key] = _anchored(key, values[key], folder)


def _anchored(key: str, given: Any, folder: Path) -> Any:
    if isinstance(given, list):
        return [_anchored(key, one, folder) for one in given]
    prefix = "onnx:" if key == "encoder" else ""
    if not isinstance(given, str) or not given.startswith(prefix):
        return given
    if key == "start" and not is_path(given):
        return given
    if key == "clip" and not (folder / given).is_dir():  # on other machines, or from the current folder
        return given
    if key == "dataset" and (given in (*DATASETS, MINI_DIGITS) or not (folder / given).is_dir()):  # a name
        return given
    return prefix + os.path.abspath(folder / given.removeprefix(prefix))


def override(tree: Mapping[str, Any], assignments: Sequence[str]) -> Sections:
    """Return `tree` with "section.key=value" applied; a value is read as TOML and, failing that, as text."""
    result: Sections = {name: dict(part) if isinstance(part, Mapping) else part for name, part in tree.items()}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        *sections, key = [part.strip() for part in name.split(".")]
        if not equals or not sections or not all((*sections, key)):
            raise GgeurError(f"--set {assignment} is not of the form section.key=value.", code="option-set-form")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            value = text.strip()
        place: dict[str, Any] = result
        for section in sections:
            if not isinstance(place.get(section, {}), Mapping):
                raise GgeurError(
                    f"--set {assignment}: {section} is not a section with keys.", code="option-set-section"
                )
            place[section] = dict(place.get(section, {}))
            place = place[section]
        place[key] = value
    return result


def _is_value(path: tuple[str, ...], given: list[Any]) -> bool:
    """Return whether a list is a single value and spans no grid; a list of lists of candidates does."""
    if path == ("run", "seeds"):
        return True
    return path == ("method", "auto", "candidates") and not all(isinstance(one, list) for one in given)


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the differences of two experiments in words; empty if there are none."""
    of_a, of_b = ({".".join(path): value for path, value in flat(tree)} for tree in (a, b))
    keys = dict.fromkeys([*of_a, *of_b])
    return [
        f"{key} is {of_a.get(key, 'not set')!r} there and {of_b.get(key, 'not set')!r} here"
        for key in keys
        if of_a.get(key) != of_b.get(key)
    ]


def _arms(tree: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tree once per `[[arm]]`, overlaid with it; the name of the arm stays under "arm"."""
    shared = {name: section for name, section in tree.items() if name != "arm"}
    for name, section in shared.items():
        if not isinstance(section, Mapping):
            raise GgeurError(f"'{name}' must be a section, [{name}], with keys.", code="experiment-section-form")
    arms = tree.get("arm", [{}])
    if not isinstance(arms, list) or not arms or not all(isinstance(arm, Mapping) for arm in arms):
        raise GgeurError("'arm' must be given as [[arm]], once for each arm.", code="experiment-arm-form")
    names = [arm.get("name") for arm in arms]
    if "arm" in tree and (not all(isinstance(n, str) and n for n in names) or len(set(names)) < len(names)):
        raise GgeurError("Every [[arm]] needs a name of its own.", code="experiment-arm-name")
    for arm in arms:
        overlaid: dict[str, Any] = dict(shared)
        for section, values in arm.items():
            if section == "name":
                overlaid["arm"] = {"name": values}
            elif isinstance(values, Mapping):
                overlaid[section] = _overlay(overlaid.get(section, {}), values)
            else:
                raise GgeurError(
                    f"'{section}' in [[arm]] must be a section, as in {section}.key = value.",
                    code="experiment-section-form",
                )
        yield overlaid


def _overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with the values of `above`, also within sections of sections."""
    return {
        **below,
        **{
            key: _overlay(below[key], value)
            if isinstance(value, Mapping) and isinstance(below.get(key), Mapping)
            else value
            for key, value in above.items()
        },
    }


def _product(tree: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield every point of the grid as a tree without lists, with its values of the varied keys."""
    lists = {path: v for path, v in flat(tree) if isinstance(v, list) and not _is_value(path, v)}
    for path, values in lists.items():
        if not values:
            raise GgeurError(
                f"The list {'.'.join(path)} is empty, so there is nothing to run.", code="experiment-list-empty"
            )
        if any(value in values[:i] for i, value in enumerate(values)):
            raise GgeurError(
                f"The list {'.'.join(path)} holds a value twice; give each value once.",
                code="experiment-list-repeated",
            )
    for combination in itertools.product(*lists.values()):
        chosen = dict(zip(lists, combination, strict=True))
        yield _filled(tree, chosen), {".".join(path): value for path, value in chosen.items()}


def _filled(
    tree: Mapping[str, Any], chosen: Mapping[tuple[str, ...], Any], path: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        name: _filled(value, chosen, (*path, name)) if isinstance(value, Mapping) else chosen.get((*path, name), value)
        for name, value in tree.items()
    }
