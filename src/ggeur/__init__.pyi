# What `ggeur` offers, and where it lives: types for readers and checkers, and what `__init__.py` loads on first use.
from .core.augment import Prototypes as Prototypes
from .core.augment import augment as augment
from .core.draws import DrawRule as DrawRule
from .core.errors import GgeurError as GgeurError
from .core.errors import GgeurWarning as GgeurWarning
from .core.geometry import Geometry as Geometry
from .core.geometry import similarity as similarity
from .core.seeding import batch_order as batch_order
from .core.site_statistics import SiteStatistics as SiteStatistics
from .core.statistics import ClassStatistics as ClassStatistics
from .data import partition as partition
from .data.image_set import ImageSet as ImageSet
from .data.image_table import ImageTable as ImageTable
from .data.table import EmbeddingTable as EmbeddingTable
from .demo import digits as digits
from .encode.encoder import Encoder as Encoder
from .encode.encoder import load_encoder as load_encoder
from .experiment.estimator import OneShotClassifier as OneShotClassifier
from .experiment.fit import fit as fit
from .experiment.runner import run as run
from .federation.augmentation import Augmentation as Augmentation
from .federation.start import first_head as first_head
from .heads.head import Head as Head
from .methods.algorithm import ClosedForm as ClosedForm
from .methods.method import Method as Method
from .privacy.noise import Noise as Noise
from .privacy.release import Release as Release
from .runs.compare import paired_difference as paired_difference
from .runs.model import Model as Model
from .runs.model import load_model as load_model
from .runs.result import Result as Result
from .settings.grid import Experiment as Experiment

__version__: str
