"""The pool's directory, read where it is mounted: chunk files by name, the pool's size by `statvfs`."""
