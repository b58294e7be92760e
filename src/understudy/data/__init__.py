"""Read private or public datasets in streams; write releases."""

from understudy.data.open_source import open_source
from understudy.data.release import write_release

__all__ = ["open_source", "write_release"]
