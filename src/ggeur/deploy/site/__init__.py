"""What runs at a site: answers to the server's questions, and what the site keeps. Its samples never leave it."""
