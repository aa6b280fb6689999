"""The messages between server and sites: how they are packed, sent, answered and checked."""
