//! Durations and sizes as people write them: `90s`, `1h30m`, `64 KiB`. What was written stays in the declaration, because
//! the digest is taken over it; this is how it is read.

use std::time::Duration;

use crate::limits::DURATION_MAX;

/// Reads a duration, for example `90s` or `1h30m`.
///
/// # Errors
/// Says what is wrong with it.
pub fn read_duration(written: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(written)
        .map_err(|error| format!("{written:?} is no duration like \"90s\" or \"1h30m\": {error}"))?;
    if duration > DURATION_MAX {
        return Err(format!("{written:?} is longer than {} days", DURATION_MAX.as_secs() / 86_400));
    }
    Ok(duration)
}

/// Reads a size in bytes, for example `64 KiB` or `10 MB`.
///
/// # Errors
/// Says what is wrong with it.
pub fn read_size_bytes(written: &str) -> Result<u64, String> {
    let size: bytesize::ByteSize = written
        .parse()
        .map_err(|error| format!("{written:?} is no size like \"64 KiB\" or \"10 MB\": {error}"))?;
    Ok(size.as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(read_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(read_duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(read_duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "90", "1 fortnight", "-1s", "1000000 days"] {
            assert!(read_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(read_size_bytes("64 KiB"), Ok(65_536));
        assert_eq!(read_size_bytes("2 GiB"), Ok(2 << 30));
        assert_eq!(read_size_bytes("10MB"), Ok(10_000_000));
        for bad in ["", "KiB", "64 parsecs", "-1 KiB"] {
            assert!(read_size_bytes(bad).is_err(), "{bad:?}");
        }
    }
}
