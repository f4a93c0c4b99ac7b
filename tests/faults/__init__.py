"""Commands on a system whose calls fail, one at a time: full disks, no memory, kills."""
