"""The papers' tables beside ours: every cell has its table, and order is what is compared."""

from benchmarks.papers import TABLES, Cell, cells, pairs


def test_every_cell_is_of_a_listed_table_and_ours_name_their_command() -> None:
    listed = {(table.paper, table.name) for table in TABLES}
    published, ours = cells("papers_cells.csv"), cells("papers_ours.csv")
    assert {(cell.paper, cell.table) for cell in (*published, *ours)} <= listed
    assert all("benchmarks" in cell.source or "understudy" in cell.source for cell in ours)
    with_numbers = {(cell.paper, cell.table) for cell in published}
    plotted = {(table.paper, table.name) for table in TABLES if table.state == "gone"}
    assert listed == with_numbers | plotted
    assert not with_numbers & plotted


def cell(dataset: str, row: str, metric: str, value: float, epsilon: str = "1") -> Cell:
    return Cell("evolution", "T1", dataset, row, metric, epsilon, value)


def test_the_order_of_rows_is_compared_and_a_smaller_distance_is_better() -> None:
    published = [cell("cats", "PE", "FID", 65.0), cell("cats", "SPTI", "FID", 106.0)]
    published += [cell("beds", "PE", "FID", 40.0), cell("beds", "SPTI", "FID", 26.0)]
    ours = [cell("homes", "PE", "Frechet, studio", 0.3), cell("homes", "SPTI", "FID", 0.0, "8")]
    ours.append(cell("homes", "SPTI", "Frechet, studio", 0.2))
    compared = list(pairs(published, ours))
    assert [(pair.published[0].row, pair.agrees) for pair in compared] == [
        ("PE", False),
        ("SPTI", True),
    ]


def test_accuracies_are_not_compared_with_distances_nor_across_epsilons() -> None:
    published = [cell("cats", "PE", "FID", 65.0), cell("cats", "SPTI", "FID", 106.0)]
    assert not list(pairs(published, [cell("a", "PE", "accuracy %", 1.0)]))
    ours = [cell("a", row, "FID", 1.0, "8") for row in ("PE", "SPTI")]
    assert not list(pairs(published, ours))
