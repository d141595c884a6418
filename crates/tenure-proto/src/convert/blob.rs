//! How values in the blob store are named, and which values are erased together.

use tenure_core::record::{ErasedPart, ValueRef};

use super::{InvalidField, id::read_digest};
use crate::v1;

/// The name of a value in the blob store.
///
/// # Errors
/// Its digest has another length than 32 bytes.
pub fn read_blob_ref(field: &'static str, given: &v1::BlobRef) -> Result<ValueRef, InvalidField> {
    Ok(ValueRef { sha256: read_digest(field, &given.sha256)?, bytes: given.bytes })
}

/// The same for the wire.
#[must_use]
pub fn write_blob_ref(reference: ValueRef) -> v1::BlobRef {
    v1::BlobRef { sha256: reference.sha256.0.to_vec().into(), bytes: reference.bytes }
}

/// Which values are to be erased.
///
/// # Errors
/// It is not said, or is one that this release does not know.
pub fn read_erased_part(field: &'static str, given: i32) -> Result<ErasedPart, InvalidField> {
    match v1::ErasedPart::try_from(given) {
        Ok(v1::ErasedPart::Input) => Ok(ErasedPart::Input),
        Ok(v1::ErasedPart::Output) => Ok(ErasedPart::Output),
        Ok(v1::ErasedPart::Unspecified) => Err(InvalidField::Missing { field }),
        Err(_) => Err(InvalidField::Unknown { field, value: given }),
    }
}

/// The same for the wire.
#[must_use]
pub const fn write_erased_part(part: ErasedPart) -> v1::ErasedPart {
    match part {
        ErasedPart::Input => v1::ErasedPart::Input,
        ErasedPart::Output => v1::ErasedPart::Output,
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::id::Digest;

    use super::*;

    #[test]
    fn names_and_parts_read_back_what_they_wrote() {
        let reference = ValueRef { sha256: Digest::of(b"large"), bytes: 8 << 20 };
        assert_eq!(read_blob_ref("blob", &write_blob_ref(reference)), Ok(reference));
        for part in [ErasedPart::Input, ErasedPart::Output] {
            assert_eq!(read_erased_part("part", write_erased_part(part).into()), Ok(part));
        }
    }

    #[test]
    fn a_name_without_a_digest_and_a_part_that_is_not_said_are_refused() {
        assert!(read_blob_ref("blob", &v1::BlobRef::default()).is_err());
        for part in [0, 9] {
            assert_eq!(read_erased_part("part", part).unwrap_err().field(), "part");
        }
    }
}
