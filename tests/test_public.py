"""What is public is explained: every parameter of every public function and method is named in its docstring."""

import inspect
import re

import pytest

import ggeur


def functions():
    """(name, function, where it is explained) of all that `ggeur` offers, modules and classes included."""
    for name in ggeur.__all__:
        thing = getattr(ggeur, name)
        members = inspect.getmembers(thing) if inspect.ismodule(thing) or inspect.isclass(thing) else []
        if inspect.isfunction(thing):
            yield name, thing, thing.__doc__
        for part, member in members:
            member = getattr(member, "__func__", member)
            ours = inspect.isfunction(member) and (member.__module__ or "").startswith("ggeur")
            if ours and not part.startswith("_") and (inspect.isclass(thing) or member.__module__ == thing.__name__):
                yield f"{name}.{part}", member, member.__doc__


@pytest.mark.parametrize(("name", "function", "text"), [pytest.param(*f, id=f[0]) for f in functions()])
def test_every_parameter_is_explained(name, function, text):
    given = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
    unexplained = [p for p in given if not re.search(rf"`{p}`|^\s*(?:\w+, )?{p}(?:, \w+)? :", text or "", re.M)]
    assert text and not unexplained, f"{name} does not explain {', '.join(unexplained)}"


@pytest.mark.parametrize("name", [n for n in ggeur.__all__ if inspect.isclass(getattr(ggeur, n))])
def test_every_class_is_explained(name):
    thing = getattr(ggeur, name)
    assert thing.__doc__ and not thing.__doc__.startswith(f"{name}(")


@pytest.mark.parametrize("name", ggeur.__all__)
def test_everything_public_has_an_example(name):
    assert ">>>" in (getattr(ggeur, name).__doc__ or ""), f"ggeur.{name}"
