//! Simulated member clusters: our own API server with nodes, pods and the workload controllers that make it look alive.
