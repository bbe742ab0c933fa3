"""Search: schedules of a kernel are measured on the device, in processes of their own, and the best is kept as text.

`entries` is the file of what was found, `using` gives a kernel the schedule that was found for it, `search` finds them;
`trials` runs `child`, the process that a bad kernel may end.
"""
