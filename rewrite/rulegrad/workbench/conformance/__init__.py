"""Whether a backend keeps the contract: the rungs of `python -m rulegrad check-backend`."""
