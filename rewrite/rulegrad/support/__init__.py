"""Services of the machine for the other packages: folders, the disk cache, forks, installed packages, places."""
