"""The settings of clustering, and what stands for those that are left open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from understudy.core.option import Option, check_options
from understudy.core.ports import PromptedDecoder
from understudy.core.types import Shape
from understudy.methods.base import Context

NAME = "clustering"

Covariance = Literal["spherical", "diagonal", "tied", "class", "full"]
Filter = Literal["none", "embeddings", "images", "both"]
Labelling = Literal["mixture", "classifier"]

_RICH, _RICHEST = (1.0, 60), (2.0, 150)
"""Budgets (mu), and clusters of a class of images that each has a covariance of its own for."""

MATRIX_DIM = 1024  # a full covariance of more dimensions is refused or cut
_USUAL_CLASSES = 10  # with more, the clusters of all of them stay as many


@dataclass(frozen=True)
class ClusteringParams:
    """Parameters of the clustering method; ``None``: chosen by the kind of release.

    Raises:
        ConfigError: A value out of range.
    """

    clusters: Annotated[
        int | None,
        Option(
            "clusters per class (k), at most; images 8, or 60 where mu is 1 to 150 where it is 2 "
            "(fewer of many classes); embeddings and grids 1",
            least=1,
        ),
    ] = None
    covariance: Annotated[
        Covariance | None,
        Option("spherical, diagonal (long embeddings), tied, class (a matrix a class) or full"),
    ] = None
    components: Annotated[
        int | None,
        Option("dimensions of the space; default 256, 400 for images, and all for grids", least=2),
    ] = None
    normalise: Annotated[
        bool | None, Option("project on the unit sphere about a DP centre; default for embeddings")
    ] = None
    whiten: Annotated[
        bool | None, Option("whiten the space by public images; default unless an unCLIP decodes")
    ] = None
    conditional: Annotated[
        bool, Option("learn each class by itself; false: one mixture without classes")
    ] = True
    filter: Annotated[
        Filter,
        Option(
            "of several candidates take those most voted for by records: embeddings, images, both"
        ),
    ] = "none"
    oversample: Annotated[
        int, Option("candidates drawn for each sample, with a filter", least=1, most=1000)
    ] = 2
    labels: Annotated[
        Labelling,
        Option("classifier: draw samples of embeddings up to where a DP classifier ends a class"),
    ] = "mixture"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def matrix(self) -> bool:
        """Whether a full covariance is measured."""
        return self.covariance not in ("spherical", "diagonal")

    def class_count(self, context: Context) -> int:
        """How many classes the mixture tells apart."""
        return len(context.classes) if self.conditional else 1

    def grid(self, context: Context) -> Shape | None:
        """Shape of the latents whose descriptions are the space; None: a linear space."""
        return context.grid if self.components is None else None

    def wide(self, context: Context) -> bool:
        """Whether public images are there and a classifier, which needs directions and lengths."""
        return self.labels == "classifier" and context.public and self.whiten is not False

    def settled(self, context: Context) -> ClusteringParams:
        """With every ``None`` of a mixture decided, from public facts only."""
        images, rich, wide = context.decoder is not None, context.mu >= _RICH[0], self.wide(context)
        linear = images and self.grid(context) is None
        unclip = linear and isinstance(context.decoder, PromptedDecoder)
        long = context.encoder is None and not context.public and context.shape[0] > MATRIX_DIM
        covariance: Covariance = "tied" if wide else "diagonal" if long else "class"
        clusters = 1
        if linear:
            covariance = "diagonal" if unclip else "full" if rich else "class"
            clusters = _usual_clusters(context.mu, self.class_count(context), unclip=unclip)
        return replace(
            self,
            clusters=self.clusters or clusters,
            covariance=self.covariance or covariance,
            whiten=context.public and not unclip if self.whiten is None else self.whiten,
            normalise=not (images or wide) if self.normalise is None else self.normalise,
        )


def _usual_clusters(mu: float, classes: int, *, unclip: bool) -> int:
    """The most clusters of a class of images; classes that are too small for them get fewer.

    More than 10 were not measured with an unCLIP. Of many classes, the noise of more takes too
    long.
    """
    (rich, few), (richest, many) = _RICH, _RICHEST
    if mu < rich:
        return 8
    usual = int(few + (many - few) * min(1.0, (mu - rich) / (richest - rich)))
    return 10 if unclip else max(10, min(usual, usual * _USUAL_CLASSES // max(1, classes)))
