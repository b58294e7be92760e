"""What the names of figures mean, in a sentence each, for readers who are new to them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MEANINGS: tuple[tuple[str, str], ...] = (
    ("FID", "Frechet distance on the standard Inception network; comparable with other people's."),
    (
        "Frechet distance",
        "How far the cloud of synthetic rows is from the cloud of real ones, by mean and spread of "
        "their features. 0: the same. It depends on the features, so compare only like with like.",
    ),
    ("KID", "Like FID, by kernels; fair for few rows. 0: the same."),
    ("kernel distance", "Like the Frechet distance, by kernels; fair for few rows. 0: the same."),
    ("standard error", "How far the figure would move if other rows had been drawn."),
    ("precision", "Part of the synthetic rows that lie among real ones: realism."),
    ("recall", "Part of the real rows that lie among synthetic ones: variety."),
    ("density", "Like precision, but counts how crowded it is there; may exceed 1."),
    ("coverage", "Part of the real rows with a synthetic row near by: variety."),
    ("Inception score", "Whether rows are clear and of many kinds, says a classifier."),
    (
        "CLIP score",
        "How well images fit their captions, 0 to 100, by an encoder of both. It depends on the "
        "encoder; what the same images come to with each other's captions is what nothing says.",
    ),
    (
        "accuracy",
        "Part of all real test rows whose class a model finds. Large classes decide it: a class of "
        "2 % may never be found at 98 %.",
    ),
    (
        "balanced accuracy",
        "Mean of the recalls of all classes, so that every class counts alike, however small it "
        "is. Naming one class for every row gives one over their number.",
    ),
    ("recall of the class", "Part of a class's real test rows that a model finds."),
    ("majority class", "What a model that looks at nothing comes to."),
    ("calibration error", "How far a model's confidence is from its accuracy. 0: not at all."),
    ("AP50", "How well objects are found: average precision at half overlap."),
    ("exact copies", "Part of the synthetic images that equal a private one, pixel for pixel."),
    (
        "near-copies",
        "Synthetic images far nearer to one private row than to any other, more often than "
        "held-out rows are and than private rows are to one another.",
    ),
    ("copies of held-out", "Held-out rows that are private rows too: the test set is not apart."),
    (
        "nearer than all but",
        "Part of the release nearer to a private row than 99 % of held-out real rows are. The "
        "baseline is the part of the private rows that are so near to another one: about 1 % where "
        "held-out rows are drawn like them, more where the two differ by themselves.",
    ),
    (
        "distance to the nearest",
        "Distance of a synthetic row to the closest private one. Held-out real rows have the "
        "distance that has nothing to do with copying: copies are much closer.",
    ),
    (
        "nearest over second nearest",
        "Distance to the closest private row over that to the second closest. Near 0: one private "
        "row was hit, as a copy would; near 1: none stands out.",
    ),
    (
        "near-duplicates",
        "Synthetic images that look the same as a private one to a perceptual hash.",
    ),
    (
        "reconstruction",
        "Every private image beside the synthetic one most like it: what could be rebuilt of it. "
        "Held-out images find matches as good where nothing was copied.",
    ),
    ("PSNR", "How alike two images are by squared error, in decibels; infinite: equal."),
    ("SSIM", "How alike two images are in brightness, contrast and structure. 1: equal."),
    (
        "attribute inference",
        "How often the class of a private row is told from the rest of it with the release's help. "
        "What works as well on held-out rows is knowledge of the population, not of a person.",
    ),
    ("semantic similarity", "Mean cosine of private and synthetic features, over all pairs."),
    ("perceptual distance", "Distance between images as people judge it, by a trained network."),
    ("DP-SGD", "The network trained on the private rows with noise, instead of on a release."),
    ("LPIPS", "Distance between images as people judge it, by a trained network."),
    ("mutual information", "How much of an image can be read off another, in bits or nats."),
    ("AUC", "How well an attack tells who took part: 0.5 is guessing, 1 is always right."),
    (
        "members found",
        "Part of those who took part that an attack finds, while of those who did not it accuses "
        "no more than the part named. Guessing finds as many as it accuses.",
    ),
    (
        "advantage",
        "How much more often an attack is right about who took part than wrong. 0: none.",
    ),
    (
        "added by the release",
        "What an attack gains from the release: the same classifier of private rows and "
        "non-members with the attack's score and without it. 0: nothing. The verdict goes by the "
        "lower end of its interval.",
    ),
    (
        "blind classifier",
        "An attack that never sees the release: it learns from some private rows and non-members "
        "what tells them apart, and is asked about others. Above 0.5 the two differ by themselves, "
        "in light, sharpness or kind, say; a random split does not.",
    ),
    (
        "blind distance",
        "The distance to real rows that took no part, without the release. Away from 0.5 private "
        "rows and non-members differ by themselves.",
    ),
    ("density ratio", "An attack that asks where the release is denser than a reference set."),
    ("LiRA", "An attack that compares with models trained with and without the row."),
    (
        "lower bound",
        "What the audit measured: epsilon is at least this, at the confidence stated. It must not "
        "be above the promised epsilon.",
    ),
)


def explained(names: Iterable[str]) -> list[tuple[str, str]]:
    """The words in the names that need one, each once, and what they mean.

    Args:
        names: Names of figures.
    """
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        fits = {
            term: text
            for term, text in _MEANINGS
            if re.search(rf"\b{re.escape(term)}\b", name, re.IGNORECASE)
        }
        longer = [term for term in fits if not any(term != one and term in one for one in fits)]
        found |= {term: fits[term] for term in longer}
    return list(found.items())
