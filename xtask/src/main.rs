//! The one task runner: `cargo xtask <task>`.

fn main() {}
