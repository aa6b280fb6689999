"""A federation over Flower: subpackages for the server, the sites, their messages, processes and the door."""
