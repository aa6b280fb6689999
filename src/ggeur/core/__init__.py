"""The paper's Sections 2 and 3 as NumPy functions, and what every room needs: errors, checks, random streams, types."""
