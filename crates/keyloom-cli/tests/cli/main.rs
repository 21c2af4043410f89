//! What the command `keyloom` promises, seen through the program itself.
//!
//! Every test starts the real binary on a database in a temporary folder, and looks at what it
//! prints, how it ends, and what is stored afterwards.

#[cfg(test)]
mod access;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod folders;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod program;
#[cfg(test)]
mod queries;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod server;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod transfer;
#[cfg(test)]
mod types;
#[cfg(test)]
mod votes;
