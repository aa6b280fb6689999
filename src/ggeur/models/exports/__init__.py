"""Export models to ONNX, torch, scikit-learn and the hub; all compute what `Model.probabilities` does."""
