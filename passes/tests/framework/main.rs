//! Tests of the framework that runs passes, and of the table of passes, in one test program.

mod manager;
mod pipeline;
mod table;
