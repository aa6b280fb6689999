"""`python -m ggeur`."""

from ggeur.cli import main

main()
