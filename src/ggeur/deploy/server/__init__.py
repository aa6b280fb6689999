"""What runs at the server: who is there, round 0, rounds, scores and the journal of a run."""
