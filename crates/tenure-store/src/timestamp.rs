//! `jiff::Timestamp` as PostgreSQL's `timestamptz`, which holds microseconds: what is finer is cut off on the way in.
//! `infinity` does not occur in our tables; it reads as a far instant like any other number.
//!
//! The orphan rule wants a type of our own. Delete this module, and `: _` behind the columns' names, when `jiff-sqlx`
//! takes the jiff that we use.

use jiff::Timestamp;
use sqlx::{
    Decode, Encode, Postgres, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef, types::Oid},
};

/// Microseconds from 1970-01-01 to 2000-01-01, where PostgreSQL begins to count.
const EPOCH_OFFSET_US: i64 = 946_684_800_000_000;

/// `timestamptz` and its array, as fixed in PostgreSQL's catalogue.
const TIMESTAMPTZ: Oid = Oid(1184);
const TIMESTAMPTZ_ARRAY: Oid = Oid(1185);

/// An instant on its way into or out of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(pub(crate) Timestamp);

impl Type<Postgres> for Stamp {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl PgHasArrayType for Stamp {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ_ARRAY)
    }
}

impl Encode<'_, Postgres> for Stamp {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let us = self.0.as_microsecond().saturating_sub(EPOCH_OFFSET_US);
        <i64 as Encode<'_, Postgres>>::encode_by_ref(&us, buffer)
    }
}

impl Decode<'_, Postgres> for Stamp {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        if value.format() == PgValueFormat::Text {
            return Err("instants are read in PostgreSQL's binary format only".into());
        }
        let us = i64::from_be_bytes(value.as_bytes()?.try_into()?);
        Ok(Self(Timestamp::from_microsecond(us.saturating_add(EPOCH_OFFSET_US))?))
    }
}
