//! One method against another: the paragraph and the table for the method's own documentation.

mod compare;
mod pair;
mod paragraph;
mod pick;
mod table;

pub use compare::one_method;
