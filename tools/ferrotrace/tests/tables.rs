// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace export --format parquet`, read back with DuckDB.

use std::fs;
use std::path::PathBuf;

use crate::common::readers::python;
use crate::common::recording::Recording;
use crate::common::recording::fast;
use crate::common::stdout;
use crate::common::succeed;

const FORMATS: &str = "\
name: all
ID: 1
format:
\tfield:s16 s2;\toffset:0;\tsize:2;\tsigned:1;
\tfield:u32 u4;\toffset:4;\tsize:4;\tsigned:0;
\tfield:u64 u8;\toffset:8;\tsize:8;\tsigned:0;
\tfield:u64 caller_ip;\toffset:16;\tsize:8;\tsigned:0;
\tfield:char comm[8];\toffset:24;\tsize:8;\tsigned:0;
\tfield:u64 two[2];\toffset:32;\tsize:16;\tsigned:0;
\tfield:struct odd odd;\toffset:48;\tsize:3;\tsigned:0;
name: other
ID: 2
format:
\tfield:s64 u8;\toffset:0;\tsize:8;\tsigned:1;
\tfield:s32 s2;\toffset:8;\tsize:4;\tsigned:1;
\tfield:u8 list[];\toffset:12;\tsize:0;\tsigned:0;
";

/// Prints the rows of a query, one a line, with tabs between values.
const QUERY: &str = r#"
import duckdb, sys
duckdb.sql("set timezone = 'UTC'")
for row in duckdb.sql(sys.argv[1]).fetchall():
    print("\t".join("-" if value is None else str(value) for value in row))
"#;

fn to_parquet(recording: &Recording) -> PathBuf {
    let path = recording.path("table.parquet");
    let mut command = recording.merge(&["--format", "parquet", "-o"]);
    succeed(command.arg(&path));
    path
}

fn all(s2: i16, comm: &str) -> Vec<u8> {
    let mut data = s2.to_ne_bytes().to_vec();
    data.extend([0, 0]);
    data.extend(u32::MAX.to_ne_bytes());
    data.extend(u64::MAX.to_ne_bytes());
    data.extend(0xffff_ffff_8100_0000_u64.to_ne_bytes());
    data.extend(comm.as_bytes());
    data.resize(32, 0);
    data.extend(
        [7, u64::MAX]
            .iter()
            .flat_map(|number: &u64| number.to_ne_bytes()),
    );
    data.extend([1, 2, 0xff]);
    data
}

fn other(s2: i32, list: &[u8]) -> Vec<u8> {
    let mut data = (-5i64).to_ne_bytes().to_vec();
    data.extend(s2.to_ne_bytes());
    data.extend(list);
    data
}

/// Makes a recording with every kind of field on two CPUs.
fn kinds() -> Recording {
    let cpu0 = [
        fast(1, 0, None, &all(-3, "ba\u{e4}sh")),
        fast(2, 0, Some(2_000), &other(-70_000, b"abc")),
        fast(7, 0, Some(4_000), b"?"),
    ];
    let cpu1 = fast(2, 0, Some(3_000), &other(1, b""));
    Recording::new("fast", FORMATS, &[cpu0.concat(), cpu1])
}

#[test]
#[ignore = "needs the readers that make setup installs"]
fn duckdb_reads_every_kind() {
    let recording = kinds();
    let table = to_parquet(&recording);
    let table = table.display();
    let columns = python(
        QUERY,
        &[&format!(
            "select column_name, column_type from (describe from '{table}')"
        )],
    );
    assert_eq!(
        columns,
        "\
host\tVARCHAR
boot_id\tVARCHAR
wall\tTIMESTAMPTZ_NS
time\tUBIGINT
cpu\tBIGINT
type\tVARCHAR
s2\tBIGINT
u4\tBIGINT
u8\tVARCHAR
caller_ip\tUBIGINT
comm\tVARCHAR
two\tUBIGINT[]
odd\tBLOB
list\tBLOB
data\tBLOB
"
    );
    let rows = python(
        QUERY,
        &[&format!(
            "select host, boot_id, wall::varchar, time, cpu, type, s2, u4, u8, hex(caller_ip), comm, two::varchar, hex(odd),
                 hex(list), hex(data) from '{table}'"
        )],
    );
    let of = "host7\tb007";
    let date = "2023-11-14 22:13:20.00000";
    // The first record has no time of its own and takes the next record's.
    assert_eq!(
        rows,
        format!(
            "\
{of}\t{date}21+00\t2000\t0\tall\t-3\t4294967295\t18446744073709551615\tFFFFFFFF81000000\tba\u{e4}sh\t[7, 18446744073709551615]\t0102FF\t-\t-
{of}\t{date}21+00\t2000\t0\tother\t-70000\t-\t-5\t-\t-\t-\t-\t616263\t-
{of}\t{date}31+00\t3000\t1\tother\t1\t-\t-5\t-\t-\t-\t-\t\t-
{of}\t{date}41+00\t4000\t0\ttype_7\t-\t-\t-\t-\t-\t-\t-\t-\t3F
"
        )
    );
    let summary = format!(
        "select decode(value)::json->>'total' from parquet_kv_metadata('{table}') where decode(key) = 'summary'"
    );
    assert_eq!(python(QUERY, &[&summary]), "4\n");
}

/// More rows than fit in one row group, and no rows.
#[test]
#[ignore = "needs the readers that make setup installs"]
fn duckdb_counts_as_many_as_text() {
    let file = |cpu: u64| -> Vec<u8> {
        let records = (0..40_000u64).map(|i| {
            let data = other(
                i32::try_from(i % 1000).unwrap(),
                &vec![0xab; usize::try_from(i % 300).unwrap()],
            );
            fast(2, 0, Some(1_000 + i * 10 + cpu), &data)
        });
        records.flatten().collect()
    };
    let recording = Recording::new("fast", FORMATS, &[file(0), file(1)]);
    let table = to_parquet(&recording);
    let table = table.display();
    let groups = python(
        QUERY,
        &[&format!(
            "select num_rows, num_row_groups from parquet_file_metadata('{table}')"
        )],
    );
    let (rows, groups) = groups.trim().split_once('\t').unwrap();
    assert_eq!(rows, "80000");
    assert!(groups.parse::<u32>().unwrap() >= 2, "{groups}");
    let query = format!(
        "select cpu, count(*), min(time), max(time), sum(s2), sum(octet_length(list)) from '{table}' group by cpu order by cpu"
    );
    let bytes: u64 = (0..40_000u64).map(|i| i % 300).sum();
    let line = |cpu: u64| {
        let last = 1_000 + 39_999 * 10 + cpu;
        format!(
            "{cpu}\t40000\t{}\t{last}\t{}\t{bytes}\n",
            1_000 + cpu,
            499_500 * 40
        )
    };
    assert_eq!(python(QUERY, &[&query]), line(0) + &line(1));
    let text = stdout(&succeed(&mut recording.merge(&[])));
    assert!(text.contains("cpu 1: 40000 records\n"), "{text}");
    // Rows sort as the text output does.
    let sorted = format!(
        "select count(*) from (select time, lag(time) over (order by file_row_number) as before
             from read_parquet('{table}', file_row_number = true)) where time < before"
    );
    assert_eq!(python(QUERY, &[&sorted]), "0\n");

    let empty = Recording::new("fast", FORMATS, &[Vec::new()]);
    let table = to_parquet(&empty);
    let query = format!("select count(*) from '{}'", table.display());
    assert_eq!(python(QUERY, &[&query]), "0\n");
}

/// The query that the documentation shows, over the tables of ten machines.
#[test]
#[ignore = "needs the readers that make setup installs"]
fn duckdb_asks_ten_hosts() {
    let dir = tempfile::tempdir().unwrap();
    for host in 0..10u64 {
        // Each host has calls of its own duration, and host 3 has an additional field.
        let more = match host {
            3 => "\tfield:u32 extra;\toffset:16;\tsize:4;\tsigned:0;\n",
            _ => "",
        };
        let formats = format!(
            "\
name: vfs_read
ID: 2
format:
\tfield:s32 pid;\toffset:0;\tsize:4;\tsigned:1;
\tfield:u64 duration;\toffset:8;\tsize:8;\tsigned:0;
{more}"
        );
        let records = (1..=100 * (host + 1)).flat_map(|i| {
            let mut data = 42i64.to_ne_bytes().to_vec();
            data.extend((i * 1_000 * (host + 1)).to_ne_bytes());
            data.extend([0; 8]);
            fast(2, 0, Some(i * 1_000_000), &data)
        });
        let recording = Recording::new("fast", &formats, &[records.collect()]);
        let mut metadata = recording.metadata();
        metadata["host"] = format!("host{host}").into();
        metadata["boot_id"] = format!("boot-{host}").into();
        recording.write_metadata(&metadata);
        let path = dir.path().join(format!("host{host}.parquet"));
        succeed(recording.merge(&["--format", "parquet", "-o"]).arg(path));
    }
    let text = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../Documentation/ferrotrace.rst"
    ));
    let text = text.unwrap();
    let query = text.split_once("D SELECT host").unwrap().1;
    let query = query.split_once(';').unwrap().0;
    let query = format!("SELECT host{query}").replace("/tmp/fleet", dir.path().to_str().unwrap());
    let rows = python(QUERY, &[&query]);
    let rows: Vec<_> = rows.lines().collect();
    assert_eq!(rows.len(), 10, "{rows:?}");
    // 1000 calls of 10, 20, ... 10000 us.
    assert_eq!(rows[0], "host9\tboot-9\tvfs_read\t1000\t9900.0\t10000.0");
    assert_eq!(rows[9], "host0\tboot-0\tvfs_read\t100\t99.0\t100.0");
}

/// Without a reader: the file begins and ends as Parquet requires, and is not overwritten.
#[test]
fn a_table_is_a_file_of_parquet() {
    let recording = kinds();
    let table = to_parquet(&recording);
    let bytes = fs::read(&table).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let mut command = recording.merge(&["--format", "parquet", "-o"]);
    let message = crate::common::fail(command.arg(&table));
    assert!(message.contains("--force"), "{message}");
    assert_eq!(fs::read(&table).unwrap(), bytes);
    let piped = succeed(&mut recording.merge(&["--format", "parquet"]));
    assert!(piped.stdout == bytes);

    // A file size limit stands for a full disk.
    let mut command = std::process::Command::new("env");
    command.args(["--ignore-signal=XFSZ", "prlimit", "--fsize=1000"]);
    let merge = recording.merge(&["--format", "parquet", "-f", "-o"]);
    command
        .arg(merge.get_program())
        .args(merge.get_args())
        .arg(&table);
    let message = crate::common::fail(&mut command);
    assert!(
        message.contains("cannot be written: File too large"),
        "{message}"
    );
}
