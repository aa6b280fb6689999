"""What people look at: one page, its tables, figures, words and costs."""
