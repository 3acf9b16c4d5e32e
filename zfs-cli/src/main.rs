//! zcheck
fn main() {}
