//! `tenure init`: a fleet file to begin with.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::Args;
use tenure_core::{reason::Reason, refusal::Refusal};

use crate::{context::Context, failure::Failure, fleet_template::FLEET_TEMPLATE};

/// Write a commented fleet file with a working example
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to; a file that is there is left alone.
    #[arg(default_value = "tenure.toml", value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn write_fleet_file(context: &Context, args: &InitArgs) -> Result<(), Failure> {
    let path = args.file.display();
    let refuse = |error: io::Error| {
        let message = if error.kind() == io::ErrorKind::AlreadyExists {
            format!("the file {path} is there already, and is not overwritten")
        } else {
            format!("writing the fleet file {path}")
        };
        Failure::caused(Refusal::new(Reason::InvalidArgument, message), &error)
    };
    let mut file = OpenOptions::new().write(true).create_new(true).open(&args.file).map_err(refuse)?;
    file.write_all(FLEET_TEMPLATE.as_bytes()).map_err(refuse)?;
    if context.printer.json {
        return context.printer.object(&serde_json::json!({ "file": args.file }));
    }
    context.printer.line(&format!("wrote {path}"))?;
    context
        .printer
        .remark(&format!("next: tenure apply {path}   and then: tenure submit greet --input world --wait"));
    Ok(())
}
