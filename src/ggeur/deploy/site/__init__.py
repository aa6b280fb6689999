"""What a site does when it is asked; its rows never leave it."""
