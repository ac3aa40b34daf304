//! kube-controller-manager's share: garbage collection, namespace deletion, service accounts, certificates. It serves
//! the control plane and simulated members alike, and a stock kube-controller-manager can stand in for any part.
