"""Queries that ask for too much memory, time or depth: known ones, and one per DuckDB function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_STRING = "repeat('a', 100000000)"
_LIST = "range(30000000)"
_MUCH = "2147483647"
# For each type, a large value, and a small one next to a large count.
_VALUES = {
    "VARCHAR": (_STRING, "'ab'"),
    "JSON": ("'[' || repeat('1,', 50000000) || '1]'", "'[1, 2]'"),
    "BLOB": (f"{_STRING}::blob", "'ab'::blob"),
    "BIT": ("repeat('1', 100000000)::bit", "'101'::bit"),
    "BIGNUM": ("repeat('9', 100000)::bignum", "12::bignum"),
    "BOOLEAN": ("true", "true"),
    "DATE": ("date '9999-12-31'", "date '0001-01-01'"),
    "TIMESTAMP": ("timestamp '9999-12-31'", "timestamp '0001-01-01'"),
    "TIMESTAMP WITH TIME ZONE": ("timestamptz '9999-12-31'", "timestamptz '0001-01-01'"),
    "TIME": ("time '23:59:59'", "time '00:00:00'"),
    "INTERVAL": ("interval 1 microsecond", "interval 1 microsecond"),
    "DOUBLE": ("1e308", f"{_MUCH}::double"),
    "FLOAT": ("1e38::float", f"{_MUCH}::float"),
    "LAMBDA": (f"(lambda x: {_STRING})", "(lambda x: repeat('a', 2000000000))"),
    "STRUCT": (f"{{'a': {_LIST}}}", "{'a': 1}"),
    "UUID": ("gen_random_uuid()", "gen_random_uuid()"),
    "ANY": (_STRING, "'ab'"),
    "T": (_STRING, "'ab'"),
    "K": ("1", "1"),
    "V": (_STRING, "'ab'"),
    "MAP(K, V)": (f"map({_LIST}, {_LIST})", "map([1], [2])"),
    "DOUBLE[]": (f"{_LIST}::double[]", "[1.0]::double[]"),
    "FLOAT[]": (f"{_LIST}::float[]", "[1.0]::float[]"),
    "VARCHAR[]": (f"[{_STRING}]", "['ab']"),
    "BOOLEAN[]": ("list_resize([true], 30000000, true)", "[true]"),
    "BIGINT[]": (_LIST, "[1]"),
    "ANY[]": (_LIST, "[1]"),
    "T[]": (_LIST, "[1]"),
    "T[][]": (f"[{_LIST}]", "[[1]]"),
    "K[]": (_LIST, "[1]"),
    "V[]": (_LIST, "[1]"),
}
_OTHER = (_MUCH, _MUCH)  # numbers

# How DuckDB lists its functions. Prefer signatures with many arguments, which include counts.
LISTED = """
    select function_name, function_type, parameter_types, coalesce(varargs, '')
    from duckdb_functions()
    where function_type in ('scalar', 'aggregate', 'macro') and not internal is null
    order by function_name, len(parameter_types) desc, parameter_types
"""


class Query(NamedTuple):
    """A query and a short name for it."""

    name: str
    sql: str


def known() -> Iterator[Query]:
    """Yield queries that took a server down, and their kinds."""
    deep = 10_000
    for sql in (
        "select range(100000000)",
        "select len(range(1000000000))",
        "select length(repeat('a',4294967290))",
        "select damerau_levenshtein(repeat('a',40000), repeat('b',40000))",
        "select length(regexp_replace(repeat('a',10000000),'a',repeat('b',1000),'g'))",
        "select list_sort(range(50000000))",
        "select lpad('x',2000000000,'y')",
        "select max(length(repeat('x', r+2000000))) from range(2048) t(r)",
        "select len(range(timestamp '0001-01-01', timestamp '9999-01-01', interval 1 second))",
        "select list_transform(range(9000), lambda x: list_sum(range(x * 9000)))",
        "select list_aggregate(range(100000000), 'histogram')",
        "select string_agg(repeat('x', 1000000), '') from range(4096)",
        "select list(repeat('x', 1000000)) from range(4096)",
        "select count(*) from range(10000000000) a, range(10000000000) b",
        "select count(*) from range(1000000000000)",
        "select * from range(1000000) a(x), range(1000000) b(y) order by x * y % 7919",
        "select distinct x * y from range(1000000) a(x), range(1000000) b(y)",
        "select row_number() over (order by random()) from range(2000000000)",
        "select list_distinct(range(100000000))",
        "select bit_count(repeat('1', 2000000000)::bit)",
        "select md5(repeat('a', 2000000000))",
        "select array_to_string(range(200000000), ',')",
        "select regexp_extract_all(repeat('ab', 100000000), 'a')",
        "select string_split(repeat('a,', 500000000), ',')",
        "select format('{:>2000000000}', 'x')",
        "select printf('%2000000000d', 1)",
        "select rpad('x', 4294967295, 'é')",
        "select list_resize([1], 2000000000, 1)",
        "select unnest(generate_series(1, 10000000000))",
        "select json('[' || repeat('[', 10000000) || repeat(']', 10000000) || ']')",
        "select from_json(repeat('[', 100000) || repeat(']', 100000), '[\"VARCHAR\"]')",
        "select translate(repeat('a', 1000000000), 'a', 'b')",
        "select levenshtein(repeat('a', 200000), repeat('b', 200000))",
        "select jaro_winkler_similarity(repeat('a', 1000000), repeat('ab', 500000))",
        "pivot (select x, x % 90000 as y from range(100000) t(x)) on y using count(*)",
        "select quantile_cont(x, range(1, 1000000) ::double[]) from range(10) t(x)",
        "select getvariable(repeat('a', 2000000000))",
        "select '1'::bit << 2000000000",
        "select 10 ** 400, factorial(100000)",
        "select list_zip(range(50000000), range(50000000), range(50000000))",
        "select hex(repeat('a', 1000000000)::blob)",
        "select base64(repeat('a', 1000000000)::blob)",
        "select url_encode(repeat('é', 500000000))",
        "select strptime(repeat('2', 100000000), repeat('%Y', 100000000))",
        "select strftime(timestamp '2020-01-01', repeat('%c', 100000000))",
        "explain analyze select len(range(1000000000))",
        "summarize select repeat('x', 1000000 + x) from range(4096) t(x)",
        "with recursive r(x) as (select 1 union all select x + 1 from r) select count(*) from r",
        "with recursive r(x) as (select 'a' union all select x || x from r) select * from r",
        "with recursive r(x) as (select [1] union all select x || x from r) select * from r",
    ):
        yield Query(sql[:60], sql)
    for n in (20_000, 100_000):
        yield Query(f"union of {n:,}", " union all ".join(["select 1"] * n))
        yield Query(f"distinct union of {n:,}", " union ".join(f"select {i}" for i in range(n)))
    parts = {
        "lambdas": ("list_transform([1], lambda x: ", ")", "x"),
        "casts": ("cast(", " as varchar)", "1"),
        "parentheses": ("(", ")", "1"),
        "subqueries": ("(select ", ")", "1"),
        "lists": ("[", "]", "1"),
        "structs": ("{'a': ", "}", "1"),
        "calls": ("abs(", ")", "1"),
        "cases": ("case when true then ", " end", "1"),
        "nots": ("not ", "", "true"),
    }
    for name, (opening, closing, inner) in parts.items():
        for depth in (900, deep, 10 * deep):
            sql = f"select {opening * depth}{inner}{closing * depth}"
            yield Query(f"{name} of depth {depth:,}", sql)
    yield Query("additions", "select " + " + ".join(["1"] * 100_000))
    yield Query("conditions", "select " + " and ".join(["true"] * 100_000))
    yield Query("columns", "select " + ", ".join(["repeat('x', 100000)"] * 20_000))
    yield Query("joins", "select count(*) from " + ", ".join(f"events e{i}" for i in range(300)))
    nested = "select * from events"
    for i in range(1000):
        nested = f"select * from ({nested}) t{i}"
    yield Query("nested selects", nested)
    tables = ", ".join(f"t{i} as (select * from t{i - 1} a, t{i - 1} b)" for i in range(1, 40))
    yield Query("doubling tables", f"with t0 as (select 1), {tables} select count(*) from t39")


def of_functions(listed: list[tuple[str, str, list[str], str]]) -> Iterator[Query]:
    """Yield calls of each function with large values, with large counts, and over many rows."""
    seen: set[str] = set()
    for name, kind, types, varargs in listed:
        if name in seen:
            continue
        seen.add(name)
        called = '"' + name.replace('"', '""') + '"'
        given = [*(one or "ANY" for one in types), *([varargs] * 2 if varargs else [])]
        for i, size in enumerate(("large", "many")):
            values = [_VALUES.get(one, _OTHER)[i] for one in given]
            rows = " from range(2048)" if kind == "aggregate" or size == "many" else ""
            yield Query(f"{size} {name}", f"select {called}({', '.join(values)}){rows}")
