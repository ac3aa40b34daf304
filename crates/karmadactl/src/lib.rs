//! The `karmadactl` command line as a library: data on stdout, everything else on stderr.
