"""What the server does: who is there, round 0, rounds, scores, the run folder."""
