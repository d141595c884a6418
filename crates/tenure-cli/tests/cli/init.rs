//! `tenure init` writes a file once.

use crate::program::run;

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tenure.toml");
    let path = path.to_str().unwrap();
    let first = run(&["init", path]);
    assert_eq!(first.code, 0, "{first:?}");
    std::fs::write(path, "mine").unwrap();
    let second = run(&["--json", "init", path]);
    assert_eq!(second.code, 1, "{second:?}");
    assert_eq!(second.error()["code"], "INVALID_ARGUMENT");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
}
