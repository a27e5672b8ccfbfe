"""Which package brings a Python module, where the two have different names."""

from __future__ import annotations

from collections.abc import Mapping

PACKAGES: Mapping[str, str] = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "PyMuPDF",
    "google.protobuf": "protobuf",
    "hydra": "hydra-core",
    "mpl_toolkits": "matplotlib",
    "PIL": "Pillow",
    "pkg_resources": "setuptools",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}


def package_of(module: str) -> str:
    """What to write into requirements.txt so that this module can be imported."""
    first = module.partition(".")[0]
    return PACKAGES.get(module) or PACKAGES.get(first, first)
