"""The door: a proxy between the network and Flower that passes the calls sites need, and nothing else."""
