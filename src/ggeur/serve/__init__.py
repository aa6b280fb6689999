"""Serve a model as a page that classifies dropped photographs and as an endpoint; needs the extra `serve`."""
