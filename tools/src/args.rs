//! What the command lines of both tools share.

