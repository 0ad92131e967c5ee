"""What can be seen afterwards and meanwhile: the log, the trace, the event bus."""
