# What `ggeur` offers, and where it lives: types for readers and checkers, and what `__init__.py` loads on first use.
from .data import digits as digits
from .data import partition as partition
from .data.image_set import ImageSet as ImageSet
from .data.image_table import ImageTable as ImageTable
from .data.table import EmbeddingTable as EmbeddingTable
from .data.tables.columns import TableColumns as TableColumns
from .data.tables.files import TableFiles as TableFiles
from .encoders.encoder import Encoder as Encoder
from .encoders.encoder import load_encoder as load_encoder
from .experiments.grid import Experiment as Experiment
from .experiments.result import Result as Result
from .experiments.result import paired_difference as paired_difference
from .experiments.runner import run as run
from .federation.augmentation import Augmentation as Augmentation
from .federation.start import first_head as first_head
from .heads.head import Head as Head
from .methods.algorithm import ClosedForm as ClosedForm
from .methods.method import Method as Method
from .models.estimator import OneShotClassifier as OneShotClassifier
from .models.fit import fit as fit
from .models.model import Model as Model
from .models.model import load_model as load_model
from .privacy.noise import Noise as Noise
from .privacy.release import Release as Release
from .stats.augment import Prototypes as Prototypes
from .stats.augment import augment as augment
from .stats.augmented_sets import DrawRule as DrawRule
from .stats.errors import GgeurError as GgeurError
from .stats.errors import GgeurWarning as GgeurWarning
from .stats.geometry import Geometry as Geometry
from .stats.geometry import similarity as similarity
from .stats.seeding import batch_order as batch_order
from .stats.site_statistics import SiteStatistics as SiteStatistics
from .stats.statistics import ClassStatistics as ClassStatistics

__version__: str
