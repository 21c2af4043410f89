//! What objects of the grid promise.

mod classes;
mod grid;
mod objects;
mod rollout;
