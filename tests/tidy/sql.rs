//! Where SQL is, and how it is written.
//!
//! Owns the rules on query files and migrations, and the one that keeps SQL in the store. Tests, the
//! test kit, the benchmarks and the examples may read the database; that they only read is left to review.

use regex::Regex;

use crate::tree::{File, assert_clean, line_of, read_tree};

/// Where SQL may stand in Rust code besides test code.
const HOMES: [&str; 5] =
    ["crates/tenure-store/", "crates/tenure-testkit/", "crates/tenure-bench/", "tests/", "examples/"];

/// A statement in a string: a keyword that begins one, with what must follow it.
const STATEMENT: &str = r#"\bsqlx::|(?:"|\n\s*)(?:SELECT\s[^;"]*\sFROM\s|INSERT\s+INTO\s|DELETE\s+FROM\s|UPDATE\s+\w+\s+SET\s|CREATE\s+(?:TABLE|INDEX|DATABASE)\s)"#;

/// Keywords that are written in capitals.
const LOWER_KEYWORD: &str =
    r"\b(?:select|insert into|update|delete from|where|from|join|values|returning|order by|group by|limit)\b";

/// A change of a job, its journal, its effects or its lease.
const JOB_CHANGE: &str =
    r"\b(?:UPDATE|DELETE\s+FROM)\s+(?:jobs|effects|leases)\b|\bINSERT\s+INTO\s+(?:journal|effects)\b";

fn check_homes(files: &[File]) -> Vec<String> {
    let statement = Regex::new(STATEMENT).unwrap();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        if HOMES.iter().any(|home| file.path.starts_with(home)) {
            continue;
        }
        for found in statement.find_iter(file.production()) {
            let line = line_of(&file.text, found.start());
            findings.push(format!("{}:{line}: SQL lives in the store", file.path));
        }
    }
    findings
}

fn check_statements(queries: &[File]) -> Vec<String> {
    let star = Regex::new(r"(?i)\b(?:select|returning)\s+(?:\w+\.)?\*").unwrap();
    let lower = Regex::new(LOWER_KEYWORD).unwrap();
    let change = Regex::new(JOB_CHANGE).unwrap();
    let mut findings = Vec::new();
    for file in queries {
        let code = blank_comments_and_strings(&file.text);
        let mut report = |line: usize, what: &str| findings.push(format!("{}:{line}: {what}", file.path));
        if !file.text.starts_with("-- ") {
            report(1, "begins without a header");
        }
        if let Some(found) = star.find(&code) {
            report(line_of(&code, found.start()), "columns are listed");
        }
        if let Some(found) = lower.find(&code) {
            let what = format!("keywords are written in capitals: {}", found.as_str());
            report(line_of(&code, found.start()), &what);
        }
        let fenced = code.contains("epoch") || file.path.starts_with("migrations/");
        if let Some(found) = change.find(&code).filter(|_| !fenced) {
            report(line_of(&code, found.start()), "changes a job without looking at the epoch");
        }
        if let Some(start) = tears_the_journal(&code) {
            report(line_of(&code, start), "an append that conflicts fails as a whole");
        }
    }
    findings
}

/// Whether an insert into the journal says what to do on a conflict, which would tear an append: the
/// first of two records would be skipped and the second written.
fn tears_the_journal(code: &str) -> Option<usize> {
    let start = code.find("INSERT INTO journal")?;
    let rest = &code[start..];
    let end = rest.find("\n)").unwrap_or(rest.len());
    rest[..end].contains("ON CONFLICT").then_some(start)
}

/// The same text, of the same length, with blanks for comments and for what stands in quotes.
fn blank_comments_and_strings(text: &str) -> String {
    let hidden = Regex::new(r#"--[^\n]*|'[^']*'|"[^"\n]*""#).unwrap();
    let blank = |found: &regex::Captures<'_>| {
        found[0].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect::<String>()
    };
    hidden.replace_all(text, blank).into_owned()
}

/// Every query is used by the store under its path below the crate.
fn check_use(queries: &[File], files: &[File]) -> Vec<String> {
    queries
        .iter()
        .filter(|query| {
            let path = query.path.trim_start_matches("crates/tenure-store/");
            !files.iter().any(|file| file.is_rust() && file.text.contains(path))
        })
        .map(|query| format!("{}: nothing uses it", query.path))
        .collect()
}

fn check_numbers(migrations: &[File]) -> Vec<String> {
    let form = Regex::new(r"^migrations/(\d{4})_[a-z0-9_]+\.sql$").unwrap();
    let mut findings = Vec::new();
    for (migration, expected) in migrations.iter().zip(1_u32..) {
        let number = form.captures(&migration.path).and_then(|found| found[1].parse::<u32>().ok());
        if number != Some(expected) {
            findings.push(format!("{}: should be migrations/{expected:04}_verb_noun.sql", migration.path));
        }
    }
    findings
}

fn read_sql(files: Vec<File>, prefix: &str) -> Vec<File> {
    files.into_iter().filter(|file| file.path.starts_with(prefix) && file.path.ends_with(".sql")).collect()
}

#[test]
fn sql_lives_in_the_store() {
    assert_clean(&check_homes(&read_tree()));
}

#[test]
fn statements_are_headed_listed_and_fenced() {
    assert_clean(&check_statements(&read_sql(read_tree(), "crates/tenure-store/queries/")));
    assert_clean(&check_statements(&read_sql(read_tree(), "migrations/")));
}

#[test]
fn every_query_is_used() {
    assert_clean(&check_use(&read_sql(read_tree(), "crates/tenure-store/queries/"), &read_tree()));
}

#[test]
fn migrations_are_numbered_without_gaps() {
    assert_clean(&check_numbers(&read_sql(read_tree(), "migrations/")));
}

#[test]
fn sql_outside_the_store_is_found() {
    let outside =
        ["let sql = \"SELECT id FROM jobs\";", "sqlx::query(sql)", "let sql = r\"\n    DELETE FROM jobs\";"];
    for text in outside {
        assert_eq!(check_homes(&[File::new("crates/tenure-cli/src/a.rs", text)]).len(), 1, "{text}");
        assert_eq!(check_homes(&[File::new("crates/tenure-store/src/a.rs", text)]).len(), 0, "{text}");
        assert_eq!(check_homes(&[File::new("crates/tenure-cli/tests/a/main.rs", text)]).len(), 0, "{text}");
    }
    let prose = "// SELECT is for the store\nlet text = \"choose FROM these\";";
    assert_eq!(check_homes(&[File::new("crates/tenure-cli/src/a.rs", prose)]).len(), 0);
}

#[test]
fn badly_written_statements_are_found() {
    for (text, expected) in [
        ("SELECT id FROM jobs", 1),
        ("-- Reads.\nSELECT * FROM jobs", 1),
        ("-- Reads.\nSELECT j.* FROM jobs AS j", 1),
        ("-- Reads.\nselect id FROM jobs", 1),
        ("-- Ends.\nUPDATE jobs SET state = $1", 1),
        ("-- Ends.\nUPDATE jobs SET state = $1 WHERE epoch = $2", 0),
        ("-- Adds.\nINSERT INTO journal (epoch) VALUES ($1) ON CONFLICT DO NOTHING", 1),
        ("-- Reads where * is, from here.\nSELECT count(*), 'from' AS \"limit\" FROM jobs", 0),
    ] {
        assert_eq!(check_statements(&[File::new("queries/jobs/a.sql", text)]).len(), expected, "{text}");
    }
}

#[test]
fn unused_query_is_found() {
    let query = || [File::new("crates/tenure-store/queries/jobs/get_job.sql", "")];
    let user = File::new("crates/tenure-store/src/job.rs", "query_file!(\"queries/jobs/get_job.sql\")");
    assert_eq!(check_use(&query(), &[user]).len(), 0);
    assert_eq!(check_use(&query(), &[]).len(), 1);
}

#[test]
fn gap_in_the_migrations_is_found() {
    let paths = ["migrations/0001_create_jobs.sql", "migrations/0003_create_leases.sql"];
    assert_eq!(check_numbers(&paths.map(|path| File::new(path, ""))).len(), 1);
}
