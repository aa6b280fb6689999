"""Images and class names to embeddings: encoders, and the resumable job that runs them."""
