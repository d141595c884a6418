//! Values as they are given on the command line: a text, `@FILE`, or `-` for stdin.

use std::{
    fs::File,
    io::{self, Read as _},
};

use bytes::Bytes;
use tenure_core::{limits::VALUE_MAX_BYTES, reason::Reason, refusal::Refusal};

use crate::failure::Failure;

/// Reads the value; `what` is what it is, for whoever has to look for it.
pub(crate) fn read_value(given: &str, what: &str) -> Result<Bytes, Failure> {
    let read = if given == "-" {
        read_bounded(io::stdin().lock())
    } else if let Some(path) = given.strip_prefix('@') {
        File::open(path).and_then(read_bounded)
    } else {
        Ok(given.as_bytes().to_vec())
    };
    read.map(Bytes::from).map_err(|error| {
        let from = if given == "-" { "stdin" } else { given.trim_start_matches('@') };
        let refusal = Refusal::new(Reason::InvalidArgument, format!("reading {what} from {from}"));
        Failure::caused(refusal, &error)
    })
}

/// One byte more than is taken shows that it is too much.
fn read_bounded(from: impl io::Read) -> io::Result<Vec<u8>> {
    let mut input = Vec::new();
    from.take(VALUE_MAX_BYTES + 1).read_to_end(&mut input)?;
    Ok(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_text_or_the_bytes_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("value");
        std::fs::write(&path, [0xff, b'\n']).unwrap();
        let given = format!("@{}", path.display());
        assert_eq!(read_value(&given, "the value").unwrap(), Bytes::from_static(&[0xff, b'\n']));
        assert_eq!(read_value("abc", "the value").unwrap(), "abc");
        let missing = read_value("@/no/such/file", "the value").unwrap_err();
        assert!(missing.text(str::to_owned).contains("reading the value from /no/such/file"));
    }
}
