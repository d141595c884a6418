//! The wire protocol: the code generated from `proto/tenure/v1`, and the only conversion between it and the types of
//! `tenure-core`; and what stands beside every message: which scope a call needs, what a caller brings along, how it speaks
//! TLS. It knows no SQL and opens no connection. Neighbours: `tenure-core` below, every program above.

pub mod access;
pub mod caller;
pub mod convert;
pub mod status;
pub mod tls;

/// The messages, clients and servers of `tenure.v1`.
pub mod v1 {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::too_many_lines)]
    tonic::include_proto!("tenure.v1");
}

/// The descriptor set of `tenure.v1` and what it imports, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tenure.v1.binpb"));
