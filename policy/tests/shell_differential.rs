//! The parser against real bash.
mod survey;
