//! A dynamic Kubernetes client over any transport: the API server in this process, or any other through its kubeconfig.
