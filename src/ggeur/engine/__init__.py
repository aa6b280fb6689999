"""Rounds, compiled: how clients train side by side, alone, and what a stack of runs is."""
