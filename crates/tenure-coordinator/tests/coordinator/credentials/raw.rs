//! Calls by their path, of whatever kind, with messages that are bytes already: the protocol's description is all that is
//! known of them.

use std::collections::BTreeSet;

use bytes::{Buf as _, BufMut as _};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tenure_proto::FILE_DESCRIPTOR_SET;
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::fleet::{PATIENCE, Way};

/// Served at the socket of a run, by its worker.
const OF_RUNS: &str = "RunService";

/// Every method that the description names, as `package.Service/Method`.
pub(super) fn described_methods() -> BTreeSet<String> {
    let sets = [FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET];
    let sets = sets.map(|set| FileDescriptorSet::decode(set).unwrap());
    let mut methods = BTreeSet::from(["grpc.reflection.v1.ServerReflection/ServerReflectionInfo".to_owned()]);
    for file in sets.iter().flat_map(|set| &set.file) {
        for service in file.service.iter().filter(|service| service.name() != OF_RUNS) {
            let name = |method: &str| format!("{}.{}/{method}", file.package(), service.name());
            methods.extend(service.method.iter().map(|method| name(method.name())));
        }
    }
    methods
}

/// Sends one message and hears the first that comes back.
pub(super) async fn call(way: Way, method: &str, message: Vec<u8>) -> Result<Vec<u8>, Status> {
    let mut client = Grpc::new(way);
    client.ready().await.unwrap();
    let path = format!("/{method}").parse().unwrap();
    // The caller's side stays open, as a worker's does: what ends it is the answer.
    let (sender, messages) = tokio::sync::mpsc::channel(1);
    sender.send(message).await.unwrap();
    let messages = tokio_stream::wrappers::ReceiverStream::new(messages);
    let heard = async {
        let answers = if is_streaming(method) {
            client.streaming(Request::new(messages), path, Bytes).await?
        } else {
            drop(sender);
            client.streaming(Request::new(messages), path, Bytes).await?
        };
        let mut answers = answers.into_inner();
        answers.message().await?.ok_or_else(|| Status::unknown("the stream ended without a message"))
    };
    tokio::time::timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("{method} was not answered"))
}

/// True where the caller may send more than one message.
fn is_streaming(method: &str) -> bool {
    method.ends_with("/Attach") || method.ends_with("/ServerReflectionInfo")
}

/// Messages as their bytes.
#[derive(Debug, Clone, Copy)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}
