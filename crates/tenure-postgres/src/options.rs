//! What a caller may choose about a server.
//!
//! Owns the options and the settings that hold where nothing is chosen. Does not know how they are
//! applied; `server` does.

use std::path::PathBuf;

use crate::SearchPlaces;

/// Settings that every server gets unless the caller says otherwise: durable, and small.
pub(crate) const DEFAULT_SETTINGS: [(&str, &str); 7] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("max_connections", "60"),
    ("shared_preload_libraries", ""),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("logging_collector", "off"),
];

/// How to run a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where its files are; `None`: a temporary directory that is removed with the server.
    pub directory: Option<PathBuf>,
    /// A port on 127.0.0.1 to listen on besides the unix socket; a password is needed there.
    pub tcp_port: Option<u16>,
    /// Settings as in `postgresql.conf`, which go before the defaults.
    pub settings: Vec<(String, String)>,
    /// Where to look for the binaries.
    pub places: SearchPlaces,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            directory: None,
            tcp_port: None,
            settings: Vec::new(),
            places: SearchPlaces::from_environment(),
        }
    }
}

impl Options {
    /// Files that stay, in `directory`.
    #[must_use]
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self { directory: Some(directory.into()), ..Self::default() }
    }

    /// Adds a setting.
    #[must_use]
    pub fn with_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }
}
