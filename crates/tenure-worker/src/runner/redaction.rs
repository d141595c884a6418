//! Values of named secrets, taken out of everything that a run says.
//!
//! Promises that no value reaches the output, a note or a result, also where it was written in pieces: a stream
//! holds back what may be the beginning of a value, at most one byte less than the longest. Values are matched as
//! bytes, leftmost and longest. Empty values are ignored. Short ones are redacted too, even a value of one byte,
//! which makes output unreadable rather than leak: give no short secrets.
//! Does not find a value that the child encoded, split by its own characters, or computed with.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

/// What stands in place of a value begins with this.
pub(crate) const REDACTION_MARK: &str = "[redacted:";

/// Finds values and replaces them by `[redacted:NAME]`. Cheap to clone; printing it prints no value.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Option<Arc<Secrets>>,
}

struct Secrets {
    automaton: AhoCorasick,
    values: Vec<Vec<u8>>,
    markers: Vec<String>,
    longest_bytes: usize,
}

impl Redactor {
    /// Of (name, value). Fails only where the values together are too large for an automaton.
    pub fn new(
        secrets: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, aho_corasick::BuildError> {
        let (markers, values): (Vec<String>, Vec<Vec<u8>>) = secrets
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (format!("{REDACTION_MARK}{name}]"), value.into_bytes()))
            .unzip();
        let Some(longest_bytes) = values.iter().map(Vec::len).max() else {
            return Ok(Self::default());
        };
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&values)?;
        Ok(Self { secrets: Some(Arc::new(Secrets { automaton, values, markers, longest_bytes })) })
    }

    /// A whole value: a note, a result.
    pub fn redact(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        let mut redacted = stream.push(bytes);
        redacted.append(&mut stream.finish());
        redacted
    }

    /// The end of something whose beginning was cut off: what may be the end of a value stands at its beginning, and is
    /// replaced by `[redacted]`.
    pub fn redact_end(&self, bytes: &[u8]) -> Vec<u8> {
        let cut = self.secrets.as_ref().map_or(0, |secrets| secrets.find_cut_value(bytes));
        let mark: &[u8] = if cut > 0 { b"[redacted]" } else { b"" };
        [mark, &self.redact(&bytes[cut..])].concat()
    }

    /// A whole text.
    pub fn redact_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redact(text.as_bytes())).into_owned()
    }

    /// Bytes as they come.
    pub fn stream(&self) -> RedactionStream {
        RedactionStream { redactor: self.clone(), held: Vec::new() }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.secrets.as_ref().map_or(&[][..], |secrets| &secrets.markers);
        formatter.debug_tuple("Redactor").field(&names).finish()
    }
}

/// One stream under redaction.
#[derive(Debug)]
pub struct RedactionStream {
    redactor: Redactor,
    held: Vec<u8>,
}

impl RedactionStream {
    /// Takes bytes and gives what may be shown by now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(secrets) = self.redactor.secrets.clone() else {
            return bytes.to_vec();
        };
        self.held.extend_from_slice(bytes);
        let (shown, taken) = secrets.redact_prefix(&self.held, false);
        self.held.drain(..taken);
        shown
    }

    /// The end: what was held back and is no value after all.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        match &self.redactor.secrets {
            Some(secrets) => secrets.redact_prefix(&held, true).0,
            None => held,
        }
    }
}

impl Secrets {
    /// What may be shown, and how many bytes that took. What comes after may be the beginning of a value.
    fn redact_prefix(&self, bytes: &[u8], is_end: bool) -> (Vec<u8>, usize) {
        let mut shown = Vec::with_capacity(bytes.len());
        let mut taken = 0;
        let mut hold = self.find_hold(bytes, taken, is_end);
        for found in self.automaton.find_iter(bytes) {
            // From `hold` on a longer value may still begin, which would be the leftmost or the longest.
            if found.start() >= hold {
                break;
            }
            shown.extend_from_slice(&bytes[taken..found.start()]);
            shown.extend_from_slice(self.markers[found.pattern().as_usize()].as_bytes());
            taken = found.end();
            if hold < taken {
                hold = self.find_hold(bytes, taken, is_end);
            }
        }
        shown.extend_from_slice(&bytes[taken..hold]);
        (shown, hold)
    }

    /// How many of the first bytes may be the end of a value whose beginning was cut off, with the values that begin in them.
    fn find_cut_value(&self, bytes: &[u8]) -> usize {
        let ends_with =
            |value: &Vec<u8>, length: usize| bytes.get(..length) == value.get(value.len() - length..);
        let longest = |value: &Vec<u8>| (1..value.len()).rev().find(|length| ends_with(value, *length));
        let mut cut = self.values.iter().filter_map(longest).max().unwrap_or(0);
        let mut start = 0;
        while start < cut {
            let begins = |value: &&Vec<u8>| bytes[start..].starts_with(value);
            let end = self.values.iter().filter(begins).map(|value| start + value.len()).max();
            cut = cut.max(end.unwrap_or(0));
            start += 1;
        }
        cut
    }

    /// The first position from which the rest is a beginning of a value and not all of it.
    fn find_hold(&self, bytes: &[u8], from: usize, is_end: bool) -> usize {
        if is_end {
            return bytes.len();
        }
        let first = bytes.len().saturating_sub(self.longest_bytes - 1).max(from);
        (first..bytes.len())
            .find(|&start| {
                let rest = &bytes[start..];
                self.values.iter().any(|value| value.len() > rest.len() && value.starts_with(rest))
            })
            .unwrap_or(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redactor(secrets: &[(&str, &str)]) -> Redactor {
        Redactor::new(secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).unwrap()
    }

    fn redact_in_pieces(redactor: &Redactor, pieces: &[&[u8]]) -> String {
        let mut stream = redactor.stream();
        let mut shown: Vec<u8> = pieces.iter().flat_map(|piece| stream.push(piece)).collect();
        shown.extend(stream.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn a_value_is_replaced_by_its_name() {
        let redactor = redactor(&[("TOKEN", "s3cret")]);
        assert_eq!(redactor.redact_text("a s3cret b s3cret"), "a [redacted:TOKEN] b [redacted:TOKEN]");
    }

    #[test]
    fn a_value_written_byte_by_byte_is_found() {
        let redactor = redactor(&[("TOKEN", "s3cret")]);
        let pieces: Vec<&[u8]> = b"xs3cs3crety".chunks(1).collect();
        assert_eq!(redact_in_pieces(&redactor, &pieces), "xs3c[redacted:TOKEN]y");
    }

    #[test]
    fn of_two_values_that_begin_alike_the_longer_wins() {
        let redactor = redactor(&[("SHORT", "abcd"), ("LONG", "abcdef")]);
        assert_eq!(redact_in_pieces(&redactor, &[b"abcd", b"ef!"]), "[redacted:LONG]!");
        assert_eq!(redact_in_pieces(&redactor, &[b"abcd", b"e!"]), "[redacted:SHORT]e!");
    }

    #[test]
    fn what_is_no_value_is_held_back_no_longer_than_it_may_become_one() {
        let redactor = redactor(&[("TOKEN", "s3cret")]);
        let mut stream = redactor.stream();
        assert_eq!(stream.push(b"abc s3cr"), b"abc ");
        assert_eq!(stream.push(b"umb"), b"s3crumb");
        assert_eq!(stream.push(b"s3"), b"");
        assert_eq!(stream.finish(), b"s3");
    }

    #[test]
    fn the_end_of_a_value_whose_beginning_was_cut_off_is_found() {
        let redactor = redactor(&[("TOKEN", "s3cret"), ("TAIL", "tail")]);
        let redact = |text: &str| String::from_utf8(redactor.redact_end(text.as_bytes())).unwrap();
        assert_eq!(redact("ret and s3cret"), "[redacted] and [redacted:TOKEN]");
        assert_eq!(redact("s3cret"), "[redacted:TOKEN]", "a whole value is no end of one");
        assert_eq!(redact("tail!"), "[redacted]!", "which begins in what may be an end of another");
        assert_eq!(redact("plain"), "plain");
    }

    #[test]
    fn empty_values_are_ignored_and_short_ones_are_not() {
        assert_eq!(redactor(&[("EMPTY", "")]).redact_text("abc"), "abc");
        assert_eq!(redactor(&[("PIN", "7")]).redact_text("a7b"), "a[redacted:PIN]b");
    }

    #[test]
    fn printing_a_redactor_prints_names_only() {
        let printed = format!("{:?}", redactor(&[("TOKEN", "s3cret")]).stream());
        assert!(printed.contains("TOKEN") && !printed.contains("s3cret"), "{printed}");
    }

    proptest! {
        /// However a text is cut, the outcome is the one of the whole text, and no value is in it.
        #[test]
        fn cuts_change_nothing(
            text in "[ab]{0,40}",
            values in prop::collection::vec("[ab]{2,6}", 1..4),
            cuts in prop::collection::vec(0_usize..41, 0..6),
        ) {
            let named = values.iter().enumerate().map(|(number, value)| (format!("N{number}"), value.clone()));
            let redactor = Redactor::new(named).unwrap();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
            let whole = redactor.secrets.as_ref().unwrap().automaton
                .replace_all(&text, &redactor.secrets.as_ref().unwrap().markers);
            prop_assert_eq!(redact_in_pieces(&redactor, &pieces), whole);
        }
    }
}
