"""A model behind a page and an endpoint: one drops a photograph and sees the answer; needs the extra `serve`."""
