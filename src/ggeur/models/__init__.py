"""Fitted models: the model folder and its card, fit, add and forget, prediction and exports."""
