"""Processes, keys and folders: a federation started on this machine or on others."""
