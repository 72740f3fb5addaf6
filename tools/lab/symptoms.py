"""What a test's output usually means."""

import re

from lab.test_output import flat


def meanings(output, symptoms):
    """What the symptoms that fit say, in their order, each once."""
    texts = (output, flat(output))
    return list(dict.fromkeys(s.means for s in symptoms if any(re.search(s.see, t) for t in texts)))
