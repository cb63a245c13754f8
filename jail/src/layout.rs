//! A plan made concrete: the C strings, descriptors and numbers that the child walks.

/// Everything the child needs, prepared; it only walks this.
#[derive(Debug)]
pub struct Layout {}
