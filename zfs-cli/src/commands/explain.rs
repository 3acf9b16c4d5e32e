//! `zcheck explain`.

use crate::args::ExplainArgs;
use crate::error::Failure;
use crate::output;
use crate::report::explain;
use zfs_scrub::Kind;

/// Prints one row of the catalogue, or all codes.
pub(super) fn run(args: &ExplainArgs, color: bool) -> Result<u8, Failure> {
    let text = match &args.code {
        Some(code) if !args.list => match Kind::from_code(code) {
            Some(kind) => explain::one(kind, color),
            None => return Err(Failure::usage(format!("there is no code {code:?}; `zcheck explain` lists all codes"))),
        },
        _ => explain::list(color),
    };
    output::report(&text).map(|()| 0)
}
