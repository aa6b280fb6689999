"""An experiment on real machines: the same settings and the same numbers, by Flower's messages."""
