"""The playhouse: a public world of rooms that this package draws itself, and private homes.

from understudy.playhouse import World
World().draw_as(7, target="dog", coat="brown", status="sleeping", place="sofa", wall="blue")
"""

from understudy.playhouse.homes import Home
from understudy.playhouse.picture import SEGMENT_CLASSES, Instance, Picture
from understudy.playhouse.source import PlayhouseSource, open_playhouse
from understudy.playhouse.world import World, render_many

__all__ = [
    "SEGMENT_CLASSES",
    "Home",
    "Instance",
    "Picture",
    "PlayhouseSource",
    "World",
    "open_playhouse",
    "render_many",
]
