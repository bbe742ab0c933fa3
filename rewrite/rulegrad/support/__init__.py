"""What the other packages need of the machine: folders, the disk cache, forks, installed packages, places."""
