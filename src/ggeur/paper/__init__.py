"""The paper's tables: what they print, how to run them, and how to read a run as one of them."""
