"""Text and conversations as the token files that Strata trains on; docs/data.md has the formats."""
