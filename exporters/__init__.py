"""The process that reads a node's engines, keeps one ledger, and emits metrics, spans and the feed."""
