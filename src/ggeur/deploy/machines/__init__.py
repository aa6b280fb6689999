"""What starts processes and writes what they start with: keys, certificates, Flower's app. Nothing that learns."""
