"""Models: hosted ones over the providers' wire formats, and the scripted one."""
