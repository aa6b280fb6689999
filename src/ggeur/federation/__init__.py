"""A federation, which is asked for statistics and answers; and what is computed from them, each written once."""
