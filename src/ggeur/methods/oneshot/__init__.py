"""Heads that are solved from the statistics of round 0, one file each; nothing is trained by the sites."""
