"""Which extra an encoder needs, and whether it is installed; nothing of it is imported to say so."""

from importlib.util import find_spec

EXTRAS = {"hf": ("torch", "transformers", "PIL"), "onnx": ("onnxruntime", "PIL")}


def installed(*modules: str) -> bool:
    """Whether all these modules are installed."""
    return all(find_spec(module) for module in modules)


def missing_extra(encoder: str) -> str:
    """The extra that is to be installed for an encoder of this name; nothing if it can be used as it is."""
    if encoder == "builtin" or encoder.startswith("pixels:"):
        return ""
    extra = "onnx" if encoder.startswith("onnx:") else "hf"
    return "" if installed(*EXTRAS[extra]) else extra
