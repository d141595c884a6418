//! What an agent remembers beyond sessions, as a run is shown it: the latest lines that fit, the oldest of them first.

use crate::{
    limits::{MEMORY_LINE_MAX_BYTES, MEMORY_TAIL_MAX_BYTES},
    reason::Reason,
    refusal::Refusal,
};

/// Whether a line can be remembered.
///
/// # Errors
/// It is blank, or too long.
pub fn check_memory(text: &str) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::new(Reason::ReasonMissing, "what is to be remembered is blank"));
    }
    let bytes = text.len();
    if bytes > MEMORY_LINE_MAX_BYTES {
        let words = format!(
            "what is to be remembered has {bytes} bytes, and at most {MEMORY_LINE_MAX_BYTES} are taken"
        );
        return Err(Refusal::new(Reason::MemoryTooLarge, words)
            .with_detail("field", "text")
            .with_detail("size_bytes", bytes)
            .with_detail("limit_bytes", MEMORY_LINE_MAX_BYTES));
    }
    Ok(())
}

/// The end of what an agent remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryTail {
    /// Its lines, the oldest first, each ending with a line break; empty where it remembers nothing.
    pub text: String,
    /// True where older lines are left out, or the beginning of the oldest line.
    pub is_cut: bool,
}

/// The tail of memories that come the latest first; `has_more` where there are older ones that were not read.
#[must_use]
pub fn compose_tail<'a>(latest_first: impl IntoIterator<Item = &'a str>, has_more: bool) -> MemoryTail {
    let (mut kept, mut bytes, mut is_cut) = (Vec::new(), 0, has_more);
    for text in latest_first {
        let line = text.trim();
        let left = MEMORY_TAIL_MAX_BYTES - bytes;
        if line.len() < left {
            bytes += line.len() + 1;
            kept.push(line);
            continue;
        }
        is_cut = true;
        // A line that is too long by itself is told by its end.
        if kept.is_empty() {
            kept.push(end_of(line, left - 1));
        }
        break;
    }
    let text = kept.iter().rev().flat_map(|line| [*line, "\n"]).collect();
    MemoryTail { text, is_cut }
}

/// The last bytes of a text, from a letter on.
fn end_of(text: &str, bytes: usize) -> &str {
    let from = text.len().saturating_sub(bytes);
    let from = (from..=text.len()).find(|place| text.is_char_boundary(*place)).unwrap_or(text.len());
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_or_oversized_line_is_refused() {
        assert_eq!(check_memory(" \n").unwrap_err().reason, Reason::ReasonMissing);
        assert!(check_memory(&"x".repeat(MEMORY_LINE_MAX_BYTES)).is_ok());
        let refused = check_memory(&"x".repeat(MEMORY_LINE_MAX_BYTES + 1)).unwrap_err();
        assert_eq!((refused.reason, &*refused.details["size_bytes"]), (Reason::MemoryTooLarge, "4097"));
    }

    #[test]
    fn lines_are_told_from_the_oldest_on_and_what_fits_is_not_cut() {
        let tail = compose_tail(["third", " second\n", "first"], false);
        assert_eq!(tail, MemoryTail { text: "first\nsecond\nthird\n".to_owned(), is_cut: false });
        assert_eq!(compose_tail([], false), MemoryTail::default());
        assert!(compose_tail(["third"], true).is_cut, "older ones were not read");
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole_and_said() {
        let long = "x".repeat(MEMORY_TAIL_MAX_BYTES / 2);
        let tail = compose_tail(["last", &long, &long, "first"], false);
        assert_eq!((tail.text.lines().count(), tail.is_cut), (2, true));
        assert!(tail.text.ends_with("\nlast\n") && tail.text.len() <= MEMORY_TAIL_MAX_BYTES);
    }

    #[test]
    fn a_line_that_is_too_long_by_itself_is_told_by_its_end() {
        let tail = compose_tail([&*format!("{}end", "ü".repeat(MEMORY_TAIL_MAX_BYTES))], false);
        assert!(tail.is_cut && tail.text.ends_with("üend\n"));
        assert!((MEMORY_TAIL_MAX_BYTES - 2..=MEMORY_TAIL_MAX_BYTES).contains(&tail.text.len()));
    }
}
