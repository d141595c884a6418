//! As much of PostgreSQL's protocol as knowing an append takes: where messages begin and end, what a statement is called, and
//! the arrays that it is bound with. Neighbours: `relay`.

use bytes::{Buf as _, Bytes, BytesMut};
use tenure_core::id::{JobId, Tenant};
use uuid::Uuid;

/// Which parameters of the statement hold the tenants and jobs of its appends, and the kinds of their records, from 0.
const TENANTS: usize = 1;
const JOBS: usize = 2;
const KINDS: usize = 29;

/// The length of the head of a typed message: its type, and its length without the type.
const HEAD_BYTES: usize = 5;

/// A message of either side. The first one of a client has no type.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// Its type; 0: it has none.
    pub(super) kind: u8,
    /// All of it.
    pub(super) bytes: Bytes,
}

/// An append on its way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SeenAppend {
    pub(super) jobs: Vec<(Tenant, JobId)>,
    pub(super) kinds: Vec<String>,
}

/// Takes the next whole message out of what was read.
pub(super) fn take_message(read: &mut BytesMut, is_typed: bool) -> Option<Message> {
    let (kind, from) = if is_typed { (*read.first()?, 1) } else { (0, 0) };
    let length = u32::from_be_bytes(read.get(from..from + 4)?.try_into().ok()?);
    let whole = from + usize::try_from(length).ok()?;
    (read.len() >= whole).then(|| Message { kind, bytes: read.split_to(whole).freeze() })
}

impl Message {
    fn body(&self) -> Bytes {
        self.bytes.slice(HEAD_BYTES.min(self.bytes.len())..)
    }

    /// The name and the text of the statement that a `Parse` prepares.
    pub(super) fn read_statement(&self) -> Option<(Bytes, Bytes)> {
        let mut body = self.body();
        Some((take_text(&mut body)?, take_text(&mut body)?))
    }

    /// The name of the statement that a `Bind` binds.
    pub(super) fn read_bound(&self) -> Option<Bytes> {
        let mut body = self.body();
        take_text(&mut body)?;
        take_text(&mut body)
    }

    /// What a `Bind` of the statement of appends appends.
    pub(super) fn read_append(&self) -> Option<SeenAppend> {
        let parameters = self.read_parameters()?;
        let tenants = read_array(parameters.get(TENANTS)?)?;
        let jobs = read_array(parameters.get(JOBS)?)?;
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).ok();
        let kinds = read_array(parameters.get(KINDS)?)?.iter().filter_map(text).collect();
        let pair = |(tenant, job): (&Bytes, &Bytes)| {
            Some((text(tenant)?.parse().ok()?, JobId(Uuid::from_slice(job).ok()?)))
        };
        Some(SeenAppend { jobs: tenants.iter().zip(&jobs).filter_map(pair).collect(), kinds })
    }

    fn read_parameters(&self) -> Option<Vec<Bytes>> {
        let mut body = self.body();
        take_text(&mut body)?;
        take_text(&mut body)?;
        let formats = usize::from(body.try_get_u16().ok()?);
        body.try_advance(formats * 2)?;
        let count = body.try_get_u16().ok()?;
        (0..count).map(|_| take_value(&mut body)).collect()
    }
}

/// True where this is the statement of appends: none but it writes records and effects.
pub(super) fn is_append(statement: &[u8]) -> bool {
    let text = String::from_utf8_lossy(statement);
    text.contains("INSERT INTO journal") && text.contains("INSERT INTO effects")
}

trait TryAdvance {
    fn try_advance(&mut self, bytes: usize) -> Option<()>;
}

impl TryAdvance for Bytes {
    fn try_advance(&mut self, bytes: usize) -> Option<()> {
        (self.len() >= bytes).then(|| self.advance(bytes))
    }
}

/// A text that ends with a zero.
fn take_text(body: &mut Bytes) -> Option<Bytes> {
    let end = body.iter().position(|byte| *byte == 0)?;
    let text = body.split_to(end);
    body.try_advance(1)?;
    Some(text)
}

/// A value with its length before it; a null is empty.
fn take_value(body: &mut Bytes) -> Option<Bytes> {
    let length = body.try_get_i32().ok()?;
    let length = usize::try_from(length).unwrap_or_default();
    (body.len() >= length).then(|| body.split_to(length))
}

/// The elements of an array of one dimension in binary form.
fn read_array(value: &Bytes) -> Option<Vec<Bytes>> {
    let mut value = value.clone();
    let dimensions = value.try_get_i32().ok()?;
    // Whether there are nulls, and of which type the elements are.
    value.try_advance(8)?;
    if dimensions == 0 {
        return Some(Vec::new());
    }
    let count = value.try_get_i32().ok()?;
    value.try_advance(4)?;
    (0..count).map(|_| take_value(&mut value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_only_whole() {
        let mut read = BytesMut::from(&b"S\x00\x00\x00\x04Q\x00\x00"[..]);
        let sync = take_message(&mut read, true).unwrap();
        assert_eq!((sync.kind, &sync.bytes[..]), (b'S', &b"S\x00\x00\x00\x04"[..]));
        assert!(take_message(&mut read, true).is_none());
        let mut start = BytesMut::from(&b"\x00\x00\x00\x08\x04\xd2\x16\x2f"[..]);
        assert_eq!(take_message(&mut start, false).unwrap().bytes.len(), 8);
    }

    #[test]
    fn an_array_is_read_and_what_is_cut_off_is_none() {
        let array = b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x19\x00\x00\x00\x02\x00\x00\x00\x01\
                      \x00\x00\x00\x04note\x00\x00\x00\x02ok";
        let elements = read_array(&Bytes::from_static(array)).unwrap();
        assert_eq!(elements, [Bytes::from_static(b"note"), Bytes::from_static(b"ok")]);
        assert_eq!(read_array(&Bytes::from_static(&array[..array.len() - 1])), None);
    }
}
