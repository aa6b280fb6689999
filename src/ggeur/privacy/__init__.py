"""What statistics reveal about samples and how to protect them: attacks, thresholds, noise, secure aggregation."""
