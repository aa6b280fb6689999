"""The site: answers to the server's questions, and the site's files. Its samples never leave it."""
