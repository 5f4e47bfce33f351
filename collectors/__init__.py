"""The process that takes exporters' feeds into the store and keeps advice fresh."""
