//! hir-opt and hir-run as library functions.
