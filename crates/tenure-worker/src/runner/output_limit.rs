//! How much of a run's output is kept.
//!
//! Owns the count over both streams. Beyond the limit output is dropped, one line says so, and the child goes on: it
//! is still read, so that it never blocks on a full pipe. Counted are the bytes as they would be shown, after
//! redaction; the line that says so is not counted.

/// The count of one run.
#[derive(Debug)]
pub(super) struct OutputLimit {
    limit_bytes: u64,
    left_bytes: u64,
    truncated: bool,
}

impl OutputLimit {
    pub(super) fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, left_bytes: limit_bytes, truncated: false }
    }

    /// Whether something was dropped.
    pub(super) fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Cuts `bytes` to what may still be kept. The first time that something is cut, the line that says so follows.
    pub(super) fn admit(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        let wanted_bytes = bytes.len() as u64;
        if wanted_bytes <= self.left_bytes {
            self.left_bytes -= wanted_bytes;
            return bytes;
        }
        bytes.truncate(usize::try_from(self.left_bytes).unwrap_or(usize::MAX));
        self.left_bytes = 0;
        if !self.truncated {
            self.truncated = true;
            bytes.extend_from_slice(self.compose_marker(bytes.last()).as_bytes());
        }
        bytes
    }

    /// On a line of its own.
    fn compose_marker(&self, last: Option<&u8>) -> String {
        let newline = if matches!(last, None | Some(b'\n')) { "" } else { "\n" };
        format!(
            "{newline}[tenure: output limit of {} bytes reached; the rest is dropped]\n",
            self.limit_bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_up_to_the_limit_is_kept_whole() {
        let mut limit = OutputLimit::new(6);
        assert_eq!(limit.admit(b"abc".to_vec()), b"abc");
        assert_eq!(limit.admit(b"def".to_vec()), b"def");
        assert!(!limit.is_truncated());
    }

    #[test]
    fn the_first_byte_beyond_it_brings_one_line_and_nothing_after() {
        let mut limit = OutputLimit::new(4);
        assert_eq!(limit.admit(b"abc".to_vec()), b"abc");
        let cut = String::from_utf8(limit.admit(b"def".to_vec())).unwrap();
        assert_eq!(cut, "d\n[tenure: output limit of 4 bytes reached; the rest is dropped]\n");
        assert!(limit.is_truncated());
        assert_eq!(limit.admit(b"ghi".to_vec()), b"");
    }
}
