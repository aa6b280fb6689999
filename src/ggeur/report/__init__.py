"""The report for people: one page, its tables, figures, words and costs."""
