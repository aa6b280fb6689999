"""Round 0 as functions on what a client holds or sends: summarise, protect, merge, shapes, layout, training set."""
