//! The programs that were built together with the one that asks, wherever the build put them.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// The program of this name that was built beside the present one: in its directory, or, where this is a test, above it.
///
/// # Errors
/// It is not built; the error says how it is.
pub fn find_program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let mut places = own.ancestors().skip(1).take(2);
    let found = places.find_map(|place| Some(place.join(name)).filter(|program| program.is_file()));
    found.with_context(|| format!("{name} is not built: cargo build --bin {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_built_is_refused_with_the_command_that_builds_it() {
        let error = find_program("no-such-program").unwrap_err();
        assert_eq!(error.to_string(), "no-such-program is not built: cargo build --bin no-such-program");
    }
}
