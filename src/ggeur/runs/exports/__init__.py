"""Models for other programs, which all do what `Model.probabilities` does: ONNX, torch, scikit-learn, the hub."""
