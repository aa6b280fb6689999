"""Class statistics, geometry and augmentation (Sections 2 and 3 of the paper) in NumPy; and what every room needs."""
