//! What a kind means to the control plane: how many replicas it has, whether it is healthy, what of it a member owns.
