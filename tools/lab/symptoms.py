"""What a test's output usually means."""

import re

from lab.test_output import flat


def meanings(output, own, common):
    """What the first of an exercise's own symptoms says that fits, and all common ones that do. The
    own ones are listed from the special to the general."""
    texts = (output, flat(output))
    found = [[s.means for s in symptoms if any(re.search(s.see, t) for t in texts)]
             for symptoms in (own, common)]
    return list(dict.fromkeys(found[0][:1] + found[1]))
