"""Time, memory and communication of a program on many devices, on paper: `python -m rulegrad simulate-scale`."""
