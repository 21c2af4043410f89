//! What objects of the grid promise.

mod classes;
mod grid;
mod layouts;
mod lists;
mod objects;
mod rollout;
