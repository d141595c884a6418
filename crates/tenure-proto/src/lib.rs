//! The wire protocol: the code generated from `proto/tenure/v1`, and the only conversion between it and the types of
//! `tenure-core`. It knows neither SQL nor how a message travels. Neighbours: `tenure-core` below, every program above.

pub mod convert;
pub mod status;

/// The messages, clients and servers of `tenure.v1`.
pub mod v1 {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::too_many_lines)]
    tonic::include_proto!("tenure.v1");
}

/// The descriptor set of `tenure.v1` and what it imports, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tenure.v1.binpb"));
