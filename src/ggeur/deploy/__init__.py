"""Real machines, over Flower: what travels, what a site does, what the server does, and how they are started."""
