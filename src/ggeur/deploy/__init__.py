"""Real machines, over Flower: only subpackages live here, one for each party and one for what passes between them."""
