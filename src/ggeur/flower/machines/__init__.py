"""Processes and their inputs: keys, certificates and Flower's app. Nothing here learns."""
