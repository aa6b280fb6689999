"""Images to embeddings: what an encoder is, those there are, and the batched, cached, resumable job."""
