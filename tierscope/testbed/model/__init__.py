"""The engine model, block by block: what engines do with requests, in virtual time, without any wire."""
