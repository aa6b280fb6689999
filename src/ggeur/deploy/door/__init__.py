"""The door: what stands between the network and Flower. It passes the calls that sites need, and nothing else."""
