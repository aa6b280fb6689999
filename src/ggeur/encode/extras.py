"""The extra that an encoder needs, and whether it is installed; neither imports it."""

from importlib.util import find_spec

EXTRAS = {"hf": ("torch", "transformers", "PIL"), "onnx": ("onnxruntime", "PIL")}


def installed(*modules: str) -> bool:
    """Return whether all these modules are installed."""
    return all(find_spec(module) for module in modules)


def missing_extra(encoder: str) -> str:
    """Return the extra to install for an encoder of this name; "" if it can be used as it is."""
    if encoder == "builtin" or encoder.startswith("pixels:"):
        return ""
    extra = "onnx" if encoder.startswith("onnx:") else "hf"
    return "" if installed(*EXTRAS[extra]) else extra
