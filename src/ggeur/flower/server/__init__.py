"""The server: the roster of sites, round 0, rounds, scores and the journal of a run."""
