"""Sets of times, each a list of (start, end). A union is one in order, without overlaps."""


def union_of(intervals):
    """The same times as intervals that follow each other and do not touch."""
    united = []
    for start, end in sorted(intervals):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        elif end > start:
            united.append((start, end))
    return united


def common_of(some, others):
    """The times that are in both: of unions, as a union."""
    common, i, j = [], 0, 0
    while i < len(some) and j < len(others):
        start, end = max(some[i][0], others[j][0]), min(some[i][1], others[j][1])
        if start < end:
            common.append((start, end))
        if some[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return common


def rest_of(some, others):
    """The times that are in `some` and not in `others`: of unions, as a union."""
    rest = []
    for start, end in some:
        for other_start, other_end in common_of([(start, end)], others):
            if start < other_start:
                rest.append((start, other_start))
            start = other_end
        if start < end:
            rest.append((start, end))
    return rest


def length_of(intervals):
    return sum(end - start for start, end in intervals)
