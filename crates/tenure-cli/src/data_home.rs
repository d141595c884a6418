//! Where this program keeps files, where nothing is said: under the user's own data directory; for root, whose home others
//! may not enter and whose PostgreSQL runs under another account, under /var/lib.

use std::{env, path::PathBuf};

/// The directory `tenure/<name>` of whoever runs this program.
pub(crate) fn find_data_directory(name: &str) -> PathBuf {
    let set = |variable| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/lib")
    } else {
        set("XDG_DATA_HOME")
            .or_else(|| set("HOME").map(|home| home.join(".local/share")))
            .unwrap_or_else(env::temp_dir)
    };
    base.join("tenure").join(name)
}
