//! Builds anew when a migration changes: they are embedded in the library. The queries are tracked by their macros.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
