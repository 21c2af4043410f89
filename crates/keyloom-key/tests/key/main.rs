//! What keys promise, seen through the public surface of the crate.
//!
//! One test program, so that the generators of templates and keys are written and linked once.

#[cfg(test)]
mod changes;
#[cfg(test)]
mod compile;
#[cfg(test)]
mod decoders;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod heads;
#[cfg(test)]
mod identities;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod locate;
#[cfg(test)]
mod objects;
#[cfg(test)]
mod packed;
#[cfg(test)]
mod spans;
#[cfg(test)]
mod text;
#[cfg(test)]
mod values;
