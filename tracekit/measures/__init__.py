"""One file per measure: a question, how its number is made, and the rows that answer it."""
