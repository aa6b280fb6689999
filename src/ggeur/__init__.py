"""ggeur: one classifier over sites whose data may not move and does not look alike, aligned by geometry."""
from ggeur.core.statistics import ClassStatistics
from ggeur.core.geometry import Geometry, similarity
from ggeur.core.augment import augment
