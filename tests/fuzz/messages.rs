//! Calls of every rpc that the descriptors know: messages of the right shape with values that are right, nearly right or far
//! out, and then, half the time, changed as bytes. Ids, names and secrets that the coordinator knows are among the values,
//! so that what lies behind the first checks is met too. Neighbours: `target` made what is known, `mutation` changes bytes.

use anyhow::Result;
use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, MethodDescriptor, Value,
};
use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use tenure_testkit::frame_message;

use crate::{
    credential::Credential,
    mutation::mutate,
    target::{Known, Target},
};

/// How deep messages stand in messages, at most.
const DEPTH_MAX: u32 = 6;
/// Messages of one stream, at most.
const STREAM_MAX: usize = 12;
const NUMBERS: [u64; 12] =
    [0, 1, 2, 3, 7, 64, 1_000, 65_536, i32::MAX as u64, u32::MAX as u64, i64::MAX as u64, u64::MAX];
const TEXTS: [&str; 12] = [
    "",
    " ",
    "a",
    "plain",
    "default",
    "UPPER",
    "ünïcödé",
    "\0",
    "{}",
    "0193a7c2-1111-7000-8000-00000000abcd",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "../../etc/passwd",
];

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    /// Where credentials are wanted.
    pub(crate) credential: Credential,
    /// Messages with their heads.
    pub(crate) body: Bytes,
}

impl Call {
    /// As it is kept: a line with the path and the word for its credential, then the body.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let line = match self.credential {
            Credential::Valid => self.path.clone(),
            other => format!("{} {}", self.path, other.word()),
        };
        [line.as_bytes(), b"\n", &self.body].concat()
    }

    /// Reads back what was kept.
    fn read(kept: &[u8]) -> Self {
        let end = kept.iter().position(|byte| *byte == b'\n').unwrap_or(kept.len());
        let line = String::from_utf8_lossy(&kept[..end]).into_owned();
        let (path, word) = line.split_once(' ').unwrap_or((&line, ""));
        let body = Bytes::copy_from_slice(kept.get(end + 1..).unwrap_or_default());
        Self { path: path.to_owned(), credential: Credential::of_word(word), body }
    }
}

/// What calls are made from.
pub(crate) struct Messages {
    methods: Vec<MethodDescriptor>,
    known: Known,
}

impl Messages {
    pub(crate) async fn prepare(target: &Target) -> Result<Self> {
        let pool = DescriptorPool::decode(tenure_proto::FILE_DESCRIPTOR_SET)?;
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
        Ok(Self { methods, known: target.prepare_known().await? })
    }

    pub(crate) fn make_call(&self, random: &mut StdRng, corpus: &[Vec<u8>]) -> Call {
        if let Some(kept) = corpus.choose(random).filter(|_| random.random_ratio(1, 10)) {
            return mutate_call(random, Call::read(kept), corpus);
        }
        let Some(method) = self.methods.choose(random) else { return Call::read(b"/") };
        let service = method.parent_service();
        let path = format!("/{}/{}", service.full_name(), method.name());
        let messages = if method.is_client_streaming() { random.random_range(1..=STREAM_MAX) } else { 1 };
        let mut body = Vec::new();
        for n in 0..messages {
            let message = self.make_message(random, &method.input(), 0);
            let mut bytes = if method.is_client_streaming() && n == 0 && random.random_ratio(9, 10) {
                self.known.hello.clone()
            } else {
                message.encode_to_vec()
            };
            if random.random_bool(0.3) {
                mutate(random, &mut bytes, corpus);
            }
            body.extend(frame_message(&bytes));
        }
        let call = Call { path, credential: Credential::draw(random), body: body.into() };
        if random.random_ratio(1, 8) { mutate_call(random, call, corpus) } else { call }
    }

    fn make_message(&self, random: &mut StdRng, of: &MessageDescriptor, depth: u32) -> DynamicMessage {
        let mut message = DynamicMessage::new(of.clone());
        if of.full_name() == "tenure.v1.RunRef" && random.random_ratio(2, 3) {
            // One that stands, so that what is said about it is looked at.
            return DynamicMessage::decode(of.clone(), self.known.run.as_slice()).unwrap_or(message);
        }
        for field in of.fields().filter(|_| depth < DEPTH_MAX) {
            if random.random_bool(0.75) {
                message.set_field(&field, self.make_field(random, &field, depth));
            }
        }
        message
    }

    fn make_field(&self, random: &mut StdRng, field: &FieldDescriptor, depth: u32) -> Value {
        let count = *[0, 1, 1, 2, 3, 70].choose(random).unwrap_or(&1);
        if field.is_map() {
            let Kind::Message(entry) = field.kind() else { return Value::Map([].into()) };
            let values = entry.map_entry_value_field();
            let entries = (0..count).map(|_| {
                (MapKey::String(self.make_text(random)), self.make_value(random, &values.kind(), depth))
            });
            return Value::Map(entries.collect());
        }
        if field.is_list() {
            return Value::List((0..count).map(|_| self.make_value(random, &field.kind(), depth)).collect());
        }
        self.make_value(random, &field.kind(), depth)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "any number will do")]
    fn make_value(&self, random: &mut StdRng, kind: &Kind, depth: u32) -> Value {
        let number = if random.random_bool(0.7) {
            *NUMBERS.choose(random).unwrap_or(&0)
        } else {
            random.random::<u64>() >> random.random_range(0..64)
        };
        match kind {
            Kind::Bool => Value::Bool(random.random()),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(number as i32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number as i64),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(number as u32),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(number),
            Kind::Float => Value::F32(f32::from_bits(number as u32)),
            Kind::Double => Value::F64(f64::from_bits(number)),
            Kind::String => Value::String(self.make_text(random)),
            Kind::Bytes => Value::Bytes(self.make_bytes(random)),
            Kind::Enum(of) => {
                let listed: Vec<i32> = of.values().map(|value| value.number()).collect();
                let far_out = random.random_ratio(1, 8);
                Value::EnumNumber(if far_out { number as i32 } else { *listed.choose(random).unwrap_or(&0) })
            }
            Kind::Message(of) => Value::Message(self.make_message(random, of, depth + 1)),
        }
    }

    fn make_text(&self, random: &mut StdRng) -> String {
        match random.random_range(0..10) {
            0..=4 => self.known.texts.choose(random).cloned().unwrap_or_default(),
            5..=8 => (*TEXTS.choose(random).unwrap_or(&"")).to_owned(),
            _ => "x".repeat(*[63, 64, 256, 512, 513, 5_000, 70_000].choose(random).unwrap_or(&1)),
        }
    }

    fn make_bytes(&self, random: &mut StdRng) -> Bytes {
        match random.random_range(0..8) {
            0..=2 => self.known.secrets.choose(random).cloned().unwrap_or_default().into(),
            3 => br#"{"command":["true"]}"#.as_slice().into(),
            4 => vec![random.random(); 32].into(),
            5 => {
                vec![b' '; *[1, 64 * 1024, 64 * 1024 + 1, 256 * 1024 + 1].choose(random).unwrap_or(&1)].into()
            }
            _ => self.make_text(random).into(),
        }
    }
}

fn mutate_call(random: &mut StdRng, call: Call, corpus: &[Vec<u8>]) -> Call {
    let mut body = call.body.to_vec();
    mutate(random, &mut body, corpus);
    Call { body: body.into(), ..call }
}
