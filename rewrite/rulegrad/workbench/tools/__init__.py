"""The tools for people: `python -m rulegrad TOOL`."""
