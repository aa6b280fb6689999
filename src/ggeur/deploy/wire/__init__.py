"""What travels between sites and server, and what of it is refused."""
