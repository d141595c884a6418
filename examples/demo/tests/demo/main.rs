//! The demo as somebody runs it.

mod tampering;
