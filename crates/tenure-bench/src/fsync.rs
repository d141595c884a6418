//! How long the file system takes to make 8 KiB durable: the one figure without which no rate of a database says
//! anything. A disk has moods that last minutes, so it is taken before and after each row.

use std::{
    io::{Seek as _, SeekFrom, Write as _},
    path::Path,
    time::Instant,
};

use anyhow::{Context as _, Result};

use crate::statistics::median;

/// Measurements of one look.
const SAMPLES: usize = 200;
/// A page of the database, in bytes.
const PAGE_BYTES: usize = 8 * 1024;

/// The median time of `fdatasync` after writing one page over and over, in microseconds.
pub(crate) fn measure_fsync_us(directory: &Path) -> Result<f64> {
    let mut file = tempfile::tempfile_in(directory)
        .with_context(|| format!("making a file in {}", directory.display()))?;
    let page = [0x5a; PAGE_BYTES];
    file.write_all(&page)?;
    file.sync_all()?;
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&page)?;
        let begun = Instant::now();
        file.sync_data()?;
        samples.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&samples))
}
