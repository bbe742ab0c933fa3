"""Answers to editors about rule files: problems, descriptions, places, outlines."""
