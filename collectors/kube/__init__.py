"""The running deployment, read from Kubernetes or from a file of its objects."""
