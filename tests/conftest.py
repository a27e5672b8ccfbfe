from __future__ import annotations

from hypothesis import settings

# How long one example takes says nothing here: other tests, and a compiler, run at the same time.
settings.register_profile("muster", deadline=None)
settings.load_profile("muster")
