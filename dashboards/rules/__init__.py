"""Recording rules and alerts as rows, and the Prometheus rule files rendered from them."""
