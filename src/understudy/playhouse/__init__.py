"""The playhouse: a public world of rooms that this package draws itself, and private homes.

from understudy.playhouse import World
World().draw_as(7, target="dog", coat="brown", status="sleeping", place="sofa", wall="blue")
"""

from understudy.playhouse.homes import Home
from understudy.playhouse.picture import SEGMENT_CLASSES, DrawnImage, Instance
from understudy.playhouse.source import PlayhouseSource, open_playhouse
from understudy.playhouse.world import World

__all__ = [
    "SEGMENT_CLASSES",
    "DrawnImage",
    "Home",
    "Instance",
    "PlayhouseSource",
    "World",
    "open_playhouse",
]
