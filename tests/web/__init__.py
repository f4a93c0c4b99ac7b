"""Tests of memreplay in a browser (web/): ci/web makes the page and runs them."""
