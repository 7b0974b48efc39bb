"""The kernels' tests run in the simulator, unless FEATHER_TARGET says otherwise.

It is set before anything imports feather_kernels, which looks at it once.
"""

import os

os.environ.setdefault("FEATHER_TARGET", "simulator")
