"""What proves or refuses work: gates, and the review in three passes."""
