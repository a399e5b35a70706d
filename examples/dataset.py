"""Select the texts of one language from a job, without near-duplicates or reserved rights.

python examples/dataset.py JOBDIR LANGUAGE OUTPUT.parquet
"""

import sys

import duckdb

QUERY = """
copy (
    select any_value(columns(*))
    from read_parquet($texts)
    where language = $language
      and language_score >= 0.5
      and not truncated
      and tdm_reservation <> '1'  -- the site keeps its rights for text and data mining
      and not contains(array_to_string(robots, ' '), 'noai')
    -- one of several pages with almost the same text; the shortest texts have no minhash
    group by coalesce(minhash[:8], [hash(text)])
) to '{output}' (format parquet, compression zstd)
"""


def main(jobdir, language, output):
    query = QUERY.format(output=output.replace("'", "''"))
    values = {"texts": f"{jobdir}/text/*.parquet", "language": language}
    [count] = duckdb.execute(query, values).fetchone()
    print(f"{count} texts in {output}")


if __name__ == "__main__":
    main(*sys.argv[1:])
