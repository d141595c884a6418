//! The tree that the rules judge: every text file of the repository, read once.
//!
//! Owns reading, and cutting a Rust file into what runs and what tests it. Skips what git keeps and
//! what cargo builds. Neighbours: every rule.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are not ours to judge.
const SKIPPED: [&str; 4] = [".git", "target", ".sqlx", "node_modules"];

/// One text file; its path is relative to the repository, with `/` between its parts.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether all of it is test code: integration tests, and test modules in files of their own.
    pub(crate) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    /// What is compiled into the product: everything before the test module at the end.
    pub(crate) fn production(&self) -> &str {
        if self.is_test() {
            return "";
        }
        let marker = "\n#[cfg(test)]\nmod ";
        let allowed = "\n#[cfg(test)]\n#[";
        let end = [marker, allowed].iter().filter_map(|mark| self.text.find(mark)).min();
        end.map_or(self.text.as_str(), |end| &self.text[..=end])
    }

    /// What tests it: all of a test file, or the test module at the end.
    pub(crate) fn test_part(&self) -> &str {
        &self.text[self.production().len()..]
    }
}

/// Everything readable in the repository, in the order of the paths.
pub(crate) fn read_tree() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    read_folder(root, root, &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 20, "the tree at {} is not the repository", root.display());
    files
}

fn read_folder(root: &Path, folder: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_symlink() || SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            read_folder(root, &path, files);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            files.push(File { path, text });
        }
    }
}

/// The one file at `path`.
pub(crate) fn find<'a>(files: &'a [File], path: &str) -> &'a File {
    files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} is missing"))
}

/// Fails with all findings at once.
pub(crate) fn assert_clean(findings: &[String]) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

/// The number of the line that holds the byte at `offset`, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

#[test]
fn the_test_module_at_the_end_is_told_from_what_runs() {
    let file = File::new("crates/a/src/b.rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {}\n");
    assert_eq!(file.production(), "fn a() {}\n\n");
    assert_eq!(file.test_part(), "#[cfg(test)]\nmod tests {}\n");
    let whole = File::new("crates/a/tests/b/main.rs", "fn a() {}\n");
    assert_eq!((whole.production(), whole.test_part()), ("", "fn a() {}\n"));
    let helper = File::new("crates/a/src/b.rs", "#[cfg(test)]\nfn a() {}\nfn b() {}\n");
    assert_eq!(helper.production(), helper.text);
}
