"""Did training get slower? Summaries of runs, compared under budgets, to a verdict."""
