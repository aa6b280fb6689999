"""The built-in digits, drawn on the spot so that everything runs without a download."""
