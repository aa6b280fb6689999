"""What a message gives away and what keeps it from doing so, as functions on messages: attacks, thresholds."""
