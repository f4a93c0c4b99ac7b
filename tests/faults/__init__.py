"""Run commands while one system call at a time fails: full disks, no memory, kills."""
