//! Pure decisions: state, policy and a moment go in, a plan comes out.
