"""Tests of ci/native_coverage.py, which maps generated C code to source lines."""

from __future__ import annotations

from ci.native_coverage import of_memory, runs, sources_of

CODE = """\
static int helper(void);
/* "memreplay/engine/read/some.pyx":3
 * cdef int twice(int n):             # <<<<<<
*/

static int twice(int n) {
  int r;

  /* "memreplay/engine/read/some.pyx":4
 * cdef int twice(int n):
 *     return n + one(n)             # <<<<<<
*/
  r = n;
#if ODD
  r += 1;
#endif

    /* "memreplay/engine/base/other.pxd":9
 *     return 1             # <<<<<<
*/
    r += one(n);
  goto end;

  /* function exit code */
  end:;
  return r;
}

static int helper(void) {
  return 1;
}
"""


def test_c_code_is_mapped_to_source_lines() -> None:
    found = dict(zip(CODE.splitlines(), sources_of(CODE), strict=True))
    some, other = ("memreplay/engine/read/some.pyx", 4), ("memreplay/engine/base/other.pxd", 9)
    assert found["  r = n;"] == found["  r += 1;"] == some
    assert found["    r += one(n);"] == found["  goto end;"] == other
    for line in ("  int r;", "  end:;", "  return r;", "  return 1;", "static int helper(void);"):
        assert found[line] is None, line


def test_lines_are_printed_as_ranges() -> None:
    assert runs([3, 4, 5, 9]) == "3-5, 9"


def test_out_of_memory_paths_are_recognised() -> None:
    code = """\
    if push(out, 1) < 0:
        return -1
    if n < 0:
        return 0
    at = placed(a)
    if at == NONE32:
        return NONE32
    if found != NONE32:
        return NONE32
    raise MemoryError
    raise ValueError
    return fail(s, ERR_MEMORY, "stacks")
"""
    assert of_memory(code) == {2, 7, 10, 12}
