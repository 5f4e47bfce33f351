"""What tiers, blocks, requests and deployments are: frozen types that every other room speaks in."""
