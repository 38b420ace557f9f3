"""The `ascendsim` command, one sub-command a file (`main` lists them); only this prints and exits."""
