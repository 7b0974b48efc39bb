"""Settings for every test: hypothesis repeats the same examples on every run.

HYPOTHESIS_PROFILE=explore looks for new ones.
"""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
