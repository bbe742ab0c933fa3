"""What editors ask about rule files while they are written: problems, descriptions, places, outlines."""
